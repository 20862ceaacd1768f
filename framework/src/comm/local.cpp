// SPDX-License-Identifier: Apache-2.0
#include "comm/local.hpp"

#include "comm/call.hpp"
#include "comm/memory.hpp"

namespace trireme {
namespace {

class LocalCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view kind() const override { return "local"; }
  Placement placement() const override { return {}; }

  Request all_reduce(Span data) override {
    return complete({.kind = Collective::kAllReduce, .data = data});
  }
  Request reduce_scatter(Span data, std::span<const std::size_t> offsets) override {
    return complete({.kind = Collective::kReduceScatter,
                     .data = data,
                     .offsets = {offsets.begin(), offsets.end()}});
  }
  Request node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                              const Wire& wire) override {
    return complete({.kind = Collective::kNodeReduceScatter,
                     .data = data,
                     .offsets = {offsets.begin(), offsets.end()},
                     .wire = wire});
  }
  Request all_gather(Span data, std::span<const std::size_t> offsets) override {
    return complete({.kind = Collective::kAllGather,
                     .data = data,
                     .offsets = {offsets.begin(), offsets.end()}});
  }
  Request broadcast(Span data, int root) override {
    return complete({.kind = Collective::kBroadcast, .data = data, .root = root});
  }

  std::vector<std::string> exchange(std::string_view bytes) override {
    ++sequence_;
    return {std::string(bytes)};
  }
  void barrier() override { ++sequence_; }

  std::unique_ptr<Communicator> split(int, int) override { return make_local_communicator(); }
  std::unique_ptr<Communicator> split_by_node() override { return make_local_communicator(); }
  Buffer allocate(std::size_t size_bytes) override { return allocate_pages(size_bytes); }
  Buffer allocate_shared(std::size_t size_bytes) override { return allocate(size_bytes); }
  void set_timeout(std::chrono::milliseconds) override {}  // nothing ever waits

 private:
  Request complete(Call call) {
    call.sequence = sequence_++;
    check_arguments(call, 1);
    return complete_now();
  }

  std::uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator() {
  return std::make_unique<LocalCommunicator>();
}

}  // namespace trireme
