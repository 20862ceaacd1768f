// SPDX-License-Identifier: Apache-2.0
// A communicator that passes all to another: derive from it to change a call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme::test {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}  // which outlives this

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string_view kind() const override { return inner_.kind(); }
  Placement placement() const override { return inner_.placement(); }
  Request all_reduce(Span data) override { return inner_.all_reduce(data); }
  Request reduce_scatter(Span data, std::span<const std::size_t> offsets) override {
    return inner_.reduce_scatter(data, offsets);
  }
  Request node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                              const Wire& wire) override {
    return inner_.node_reduce_scatter(data, offsets, wire);
  }
  Request all_gather(Span data, std::span<const std::size_t> offsets) override {
    return inner_.all_gather(data, offsets);
  }
  Request broadcast(Span data, int root) override { return inner_.broadcast(data, root); }
  Request mark() override { return inner_.mark(); }
  std::vector<std::string> exchange(std::string_view bytes) override {
    return inner_.exchange(bytes);
  }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return inner_.split(color, key);
  }
  std::unique_ptr<Communicator> split_by_node() override { return inner_.split_by_node(); }
  Buffer allocate(std::size_t size_bytes) override { return inner_.allocate(size_bytes); }
  Buffer allocate_shared(std::size_t size_bytes) override {
    return inner_.allocate_shared(size_bytes);
  }
  std::uint64_t bytes_sent() const override { return inner_.bytes_sent(); }
  void set_timeout(std::chrono::milliseconds timeout) override { inner_.set_timeout(timeout); }

 protected:
  Communicator& inner_;
};

}  // namespace trireme::test
