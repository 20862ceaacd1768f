// SPDX-License-Identifier: Apache-2.0
// Ranks of a node read and write each other's memory: a rank whose operation is complete may write
// its own.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ranks.hpp"

namespace trireme {
namespace {

class Reuse : public testing::EveryKind {};
TRIREME_EVERY_KIND(Reuse);

constexpr std::size_t kCount = 3'000'000;  // some milliseconds of summing

// scatter: gives the last rank of each node all of the sum. The others, who have nothing to sum,
// write what is read last as soon as they may.
void check_sums_of_what_was_given(Communicator& communicator,
                                  const std::function<void(Span)>& scatter) {
  const Buffer buffer = communicator.allocate(kCount * sizeof(float));
  auto* const data = reinterpret_cast<float*>(buffer.data());
  const auto size = static_cast<float>(communicator.size());
  const bool is_owner = communicator.rank() + 1 == communicator.size();
  for (int round = 0; round < 3; ++round) {
    std::fill_n(data, kCount, static_cast<float>(communicator.rank() + 1));
    communicator.barrier();
    scatter({data, kCount, DType::kF32});
    if (is_owner) {
      EXPECT_TRUE(std::all_of(data, data + kCount, [&](float sum) {
        return sum == size * (size + 1) / 2;
      })) << round;
    } else {
      for (std::size_t i = kCount; i-- > 0;) data[i] = 0;
    }
    communicator.barrier();
  }
}

std::vector<std::size_t> all_is_the_lasts(int shards) {
  std::vector<std::size_t> offsets(static_cast<std::size_t>(shards) + 1, 0);
  offsets.back() = kCount;
  return offsets;
}

TEST_P(Reuse, ReduceScatterIsNotOverWhileOthersReadThisRanksData) {
  on_every_rank([](Communicator& communicator) {
    const auto offsets = all_is_the_lasts(communicator.size());
    check_sums_of_what_was_given(
        communicator, [&](Span data) { communicator.reduce_scatter(data, offsets).wait(); });
  });
}

TEST_P(Reuse, NodeReduceScatterIsNotOverWhileOthersReadThisRanksData) {
  on_every_rank([](Communicator& communicator) {
    const auto offsets = all_is_the_lasts(communicator.placement().max_local_size);
    check_sums_of_what_was_given(communicator, [&](Span data) {
      communicator.node_reduce_scatter(data, offsets, {}).wait();
    });
  });
}

TEST_P(Reuse, AnAllReduceIsNotOverWhileOthersWriteThisRanksData) {
  on_every_rank([](Communicator& communicator) {
    const Buffer buffer = communicator.allocate(kCount * sizeof(float));
    auto* const data = reinterpret_cast<float*>(buffer.data());
    const int size = communicator.size();
    const auto value = [](std::size_t i, int rank) { return float(i % 1000) + float(rank); };
    const auto sum = [&](std::size_t i) {
      return float(size) * value(i, 0) + float(size * (size - 1) / 2);
    };
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < kCount; ++i) data[i] = value(i, communicator.rank());
      communicator.all_reduce({data, kCount, DType::kF32}).wait();
      for (std::size_t i = kCount; i-- > 0;) {
        ASSERT_EQ(data[i], sum(i)) << "element " << i << " of round " << round;
        data[i] = -1;
      }
      communicator.barrier();
      EXPECT_TRUE(std::all_of(data, data + kCount, [](float x) { return x == -1; })) << round;
      communicator.barrier();
    }
  });
}

// The last rank is late with what is left to do after it has posted.
TEST_P(Reuse, AGatherOfSharedMemoryTouchesNothingOnceItIsOverForTheOwner) {
  on_every_rank([](Communicator& world) {
    const std::unique_ptr<Communicator> node = world.split(world.placement().node, world.rank());
    const auto size = static_cast<std::size_t>(node->size());
    const auto rank = static_cast<std::size_t>(node->rank());
    const Buffer buffer = node->allocate_shared(size * sizeof(double));
    auto* const data = reinterpret_cast<double*>(buffer.data());
    std::vector<std::size_t> offsets;
    for (std::size_t r = 0; r <= size; ++r) offsets.push_back(r);
    for (int round = 0; round < 20; ++round) {
      data[rank] = round;
      Request gather = node->all_gather({data, size, DType::kF64}, offsets);
      if (rank + 1 == size) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      gather.wait();
      data[rank] = round + 0.5;
      node->barrier();
      for (std::size_t r = 0; r < size; ++r) ASSERT_EQ(data[r], round + 0.5) << "of rank " << r;
      node->barrier();
    }
  });
}

}  // namespace
}  // namespace trireme
