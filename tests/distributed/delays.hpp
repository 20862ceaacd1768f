// SPDX-License-Identifier: Apache-2.0
// A communicator whose rank is late now and then: ranks that keep step by chance hide races.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>

#include "support/forwarding_communicator.hpp"

namespace trireme::testing {

// Draws which calls are late, the same for equal seed and rank: on every second rank (the seed says
// which) every third call, by up to 4 ms. All threads of the process sleep then, by SIGUSR2. One
// caller at a time.
class Delays {
 public:
  Delays(std::uint64_t seed, int rank);
  void pause();

 private:
  const bool is_late_;
  std::mt19937_64 random_;
};

// Passes all to `inner`, which must outlive this, and so do the groups split off. Pauses before an
// operation is posted, and between its posting and the wait for it.
class DelayedCommunicator : public test::ForwardingCommunicator {
 public:
  DelayedCommunicator(Communicator& inner, std::uint64_t seed);

  Request all_reduce(Span data) override;
  Request reduce_scatter(Span data, std::span<const std::size_t> offsets) override;
  Request node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                              const Wire& wire) override;
  Request all_gather(Span data, std::span<const std::size_t> offsets) override;
  Request broadcast(Span data, int root) override;
  std::vector<std::string> exchange(std::string_view bytes) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::unique_ptr<Communicator> split_by_node() override;

 private:
  DelayedCommunicator(std::unique_ptr<Communicator> group, std::shared_ptr<Delays> delays);
  Request late(Request request) const;

  const std::unique_ptr<Communicator> own_;  // of a group
  const std::shared_ptr<Delays> delays_;     // of this rank, with its groups
};

}  // namespace trireme::testing
