// SPDX-License-Identifier: Apache-2.0
#include "comm/node_memory.hpp"

#include <optional>
#include <string>
#include <utility>

#include "comm/memory_file.hpp"
#include "comm/shared_error.hpp"

namespace trireme {
namespace {

// The memory while rank 0 fills it; mapped anew for each size.
class FileWriter : public NodeWriter {
 public:
  std::span<std::byte> resize(std::size_t size_bytes) override {
    mapping_ = {};
    const std::size_t before = file_.handle().size_bytes;
    if (size_bytes > before) require_available(size_bytes - before);
    file_.resize(size_bytes);
    if (size_bytes > before) file_.reserve(before, size_bytes - before);
    mapping_ = map_memory(file_.handle(), Access::kWrite);
    return {mapping_.data(), size_bytes};
  }

  // From now on nobody can write it.
  void seal() {
    mapping_ = {};  // a writable mapping forbids the seal
    file_.seal();
  }

  MemoryHandle handle() const { return file_.handle(); }

 private:
  MemoryFile file_;
  Mapping mapping_;
};

}  // namespace

std::shared_ptr<const NodeBytes> share_on_node(Communicator& node,
                                               const std::function<void(NodeWriter&)>& fill) {
  std::optional<FileWriter> file;  // rank 0's, until all have mapped it
  std::string packed;
  collectively(node, [&] {
    if (node.rank() != 0) return;
    fill(file.emplace());
    file->seal();
    packed = pack(file->handle());
  });
  const MemoryHandle handle = unpack(node.exchange(packed).front());
  std::shared_ptr<const NodeBytes> bytes;
  collectively(
      node, [&] { bytes = std::make_shared<const NodeBytes>(map_memory(handle, Access::kRead)); });
  return bytes;
}

}  // namespace trireme
