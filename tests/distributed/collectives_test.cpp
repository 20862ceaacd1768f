// SPDX-License-Identifier: Apache-2.0
// Every collective against a reference that each rank computes for itself, in rank order, bit for
// bit: so threads and MPI give the same bits, too.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/threads.hpp"
#include "ranks.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using testing::EveryKind;

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::kI64;
  return DType::kU8;
}

template <class T>
Span span_of(std::vector<T>& data) {
  return {data.data(), data.size(), dtype_of<T>()};
}

// What `rank` contributes at `index`: magnitudes differ so much that every order of addition rounds
// differently.
template <class T>
T value(int rank, std::size_t index) {
  const auto mixed = static_cast<std::uint32_t>(index * 2654435761u + 40503u * unsigned(rank) + 7u);
  const double fraction = double(mixed % 100003u) / 100003.0 - 0.5;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(fraction * std::pow(10.0, double((mixed >> 7) % 9)));
  }
  return static_cast<T>(mixed);
}

template <class T>
std::vector<T> values(int rank, std::size_t count) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = value<T>(rank, i);
  return data;
}

// [node] -> its ranks, as all of them say.
std::vector<std::vector<int>> nodes_of(Communicator& communicator) {
  const Placement mine = communicator.placement();
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(mine.num_nodes));
  int rank = 0;
  for (const std::string& node : communicator.exchange(std::to_string(mine.node)))
    nodes.at(std::stoul(node)).push_back(rank++);
  return nodes;
}

// As the contract says: in the order of ranks on each node, and so over the nodes.
template <class T>
std::vector<T> sum_in_order(const std::vector<std::vector<int>>& nodes, std::size_t count) {
  std::vector<T> sum;
  for (const std::vector<int>& ranks : nodes) {
    std::vector<T> part = values<T>(ranks.front(), count);
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      for (std::size_t i = 0; i < count; ++i)
        part[i] = static_cast<T>(part[i] + value<T>(ranks[r], i));
    }
    if (sum.empty()) {
      sum = std::move(part);
    } else {
      for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + part[i]);
    }
  }
  return sum;
}

template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& actual, const std::vector<T>& expected,
                                     std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << " is " << +actual[i] << ", expected " << +expected[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Odd ranks own nothing, the rest more the later they come; the last one takes what is left.
std::vector<std::size_t> uneven_offsets(std::size_t count, int size) {
  std::vector<std::size_t> offsets = {0};
  for (int rank = 0; rank < size; ++rank) {
    const std::size_t left = count - offsets.back();
    const bool last = rank + 1 == size;
    const std::size_t part = last ? left : rank % 2 == 1 ? 0 : left / std::size_t(size - rank + 1);
    offsets.push_back(offsets.back() + part);
  }
  return offsets;
}

// [r] -> where rank r's part begins
std::size_t begin_of(const std::vector<std::size_t>& offsets, int rank) {
  return offsets[static_cast<std::size_t>(rank)];
}

const std::vector<std::size_t>& counts() {
  static const std::vector<std::size_t> all = {0, 1, 2, 7, 64, 1023, 5000, 100003};
  return all;
}

template <class T>
void check_all_reduce(Communicator& communicator) {
  const auto nodes = nodes_of(communicator);
  for (const std::size_t count : counts()) {
    std::vector<T> data = values<T>(communicator.rank(), count);
    communicator.all_reduce(span_of(data)).wait();
    ASSERT_TRUE(same_bits(data, sum_in_order<T>(nodes, count), 0, count)) << count;
  }
}

template <class T>
void check_reduce_scatter(Communicator& communicator) {
  const auto nodes = nodes_of(communicator);
  for (const std::size_t count : counts()) {
    const auto offsets = uneven_offsets(count, communicator.size());
    std::vector<T> data = values<T>(communicator.rank(), count);
    communicator.reduce_scatter(span_of(data), offsets).wait();
    const std::vector<T> expected = sum_in_order<T>(nodes, count);
    const int rank = communicator.rank();
    ASSERT_TRUE(same_bits(data, expected, begin_of(offsets, rank), begin_of(offsets, rank + 1)))
        << count;
  }
}

template <class T>
void check_node_reduce_scatter(Communicator& communicator) {
  const auto nodes = nodes_of(communicator);
  const Placement mine = communicator.placement();
  for (const std::size_t count : counts()) {
    for (const int shards : {1, 2, 3, 5, mine.max_local_size}) {
      const auto offsets = uneven_offsets(count, shards);
      std::vector<T> data = values<T>(communicator.rank(), count);
      communicator.node_reduce_scatter(span_of(data), offsets, {}).wait();
      const Part part = part_of(offsets, mine.local_rank, mine.local_size);
      ASSERT_TRUE(same_bits(data, sum_in_order<T>(nodes, count), part.begin, part.end))
          << count << " in " << shards;
    }
  }
}

template <class T>
void check_all_gather(Communicator& communicator) {
  for (const std::size_t count : counts()) {
    const auto offsets = uneven_offsets(count, communicator.size());
    std::vector<T> data = values<T>(communicator.rank(), count);
    communicator.all_gather(span_of(data), offsets).wait();
    for (int owner = 0; owner < communicator.size(); ++owner) {
      ASSERT_TRUE(same_bits(data, values<T>(owner, count), begin_of(offsets, owner),
                            begin_of(offsets, owner + 1)))
          << count << " of owner " << owner;
    }
  }
}

template <class T>
void check_broadcast(Communicator& communicator) {
  for (const std::size_t count : counts()) {
    for (int root = 0; root < communicator.size(); ++root) {
      std::vector<T> data = values<T>(communicator.rank(), count);
      communicator.broadcast(span_of(data), root).wait();
      ASSERT_TRUE(same_bits(data, values<T>(root, count), 0, count)) << count << " of " << root;
    }
  }
}

class Collectives : public EveryKind {};
TRIREME_EVERY_KIND(Collectives);

TEST_P(Collectives, AllReduceSumsInRankOrder) {
  on_every_rank([](Communicator& communicator) {
    check_all_reduce<float>(communicator);
    check_all_reduce<double>(communicator);
    check_all_reduce<std::int64_t>(communicator);
  });
}

TEST_P(Collectives, ReduceScatterSumsTheOwnersPart) {
  on_every_rank([](Communicator& communicator) {
    check_reduce_scatter<float>(communicator);
    check_reduce_scatter<double>(communicator);
    check_reduce_scatter<std::int64_t>(communicator);
  });
}

TEST_P(Collectives, NodeReduceScatterGivesEachNodeTheWholeSum) {
  on_every_rank([](Communicator& communicator) {
    check_node_reduce_scatter<float>(communicator);
    check_node_reduce_scatter<double>(communicator);
    check_node_reduce_scatter<std::int64_t>(communicator);
  });
}

TEST_P(Collectives, AllGatherBringsEveryOwnersPart) {
  on_every_rank([](Communicator& communicator) {
    check_all_gather<float>(communicator);
    check_all_gather<double>(communicator);
    check_all_gather<std::int64_t>(communicator);
    check_all_gather<std::uint8_t>(communicator);
  });
}

TEST_P(Collectives, BroadcastBringsTheRootsData) {
  on_every_rank([](Communicator& communicator) {
    check_broadcast<float>(communicator);
    check_broadcast<double>(communicator);
    check_broadcast<std::int64_t>(communicator);
    check_broadcast<std::uint8_t>(communicator);
  });
}

TEST_P(Collectives, TheOrderOfAdditionIsVisibleInTheTestValues) {
  const std::size_t count = 1000;
  const std::vector<float> forwards = sum_in_order<float>({{0, 1, 2, 3}}, count);
  EXPECT_FALSE(same_bits(sum_in_order<float>({{3, 2, 1, 0}}, count), forwards, 0, count));
  EXPECT_FALSE(same_bits(sum_in_order<float>({{0, 1}, {2, 3}}, count), forwards, 0, count));
}

// What half width may cost: each node's sum and the whole are rounded once. Numbers of like
// magnitude, whose exact sum a double holds.
void check_half_width(Communicator& communicator, WireType type) {
  constexpr std::size_t kCount = 70'001;
  const double rounding = type == WireType::kF16 ? std::ldexp(1, -11) : std::ldexp(1, -8);
  const auto sent = [](int rank, std::size_t i) {
    return static_cast<float>(std::sin(double(i) * (rank + 1.0)) * 1e-2);
  };
  const Placement mine = communicator.placement();
  const auto offsets = uneven_offsets(kCount, 3);
  const Part part = part_of(offsets, mine.local_rank, mine.local_size);
  std::size_t num_summed = 0;
  for (const Part& summed : summed_parts(offsets, mine, DType::kF32)) num_summed += summed.size();
  std::vector<float> data(kCount), residual(part.size()), sum_residual(num_summed);
  WireCounts counts;
  constexpr std::size_t kEvery = 7;  // of the elements is looked at
  std::vector<float> own(kCount);
  std::vector<double> exact(kCount), magnitude(kCount);  // of all ranks' numbers
  for (std::size_t i = 0; i < kCount; ++i) own[i] = sent(communicator.rank(), i);
  for (std::size_t i = part.begin; i < part.end; i += kEvery) {
    for (int rank = 0; rank < communicator.size(); ++rank) {
      exact[i] += sent(rank, i);
      magnitude[i] += std::fabs(sent(rank, i));
    }
  }
  std::vector<double> errors(kCount);  // added up over the rounds
  for (int round = 1; round <= 50; ++round) {
    data = own;
    const Wire wire{.type = type,
                    .residual = residual.data(),
                    .sum_residual = sum_residual.data(),
                    .counts = &counts};
    communicator.node_reduce_scatter(span_of(data), offsets, wire).wait();
    for (std::size_t i = part.begin; i < part.end; i += kEvery) {
      errors[i] += data[i] - exact[i];
      // Error feedback brings back at most as much as it has kept.
      const double bound = 4 * rounding * magnitude[i] + 1e-7;
      ASSERT_NEAR(data[i], exact[i], mine.num_nodes == 1 ? 1e-7 : bound) << i;
      // What is owed is never more than one rounding of each node's sum and one of the whole;
      // without feedback the same error would add up round by round. (And float32's own.)
      ASSERT_LE(std::fabs(errors[i]), (2.1 * rounding + round * 2e-7) * magnitude[i] + 1e-7)
          << i << " in round " << round;
    }
  }
  EXPECT_EQ(counts.saturated, 0u);
}

TEST_P(Collectives, HalfWidthSumsAreRoundedTwiceAndFeedbackKeepsWhatIsLost) {
  if (GetParam().name.starts_with("nccl")) GTEST_SKIP() << "NCCL sums at full width only";
  on_every_rank([](Communicator& communicator) {
    check_half_width(communicator, WireType::kF16);
    check_half_width(communicator, WireType::kBF16);
  });
}

TEST_P(Collectives, HalfWidthHalvesTheBytesThatAreSent) {
  if (!GetParam().name.starts_with("mpi")) GTEST_SKIP() << "only MPI counts what it sends";
  on_every_rank([](Communicator& communicator) {
    const auto bytes_of = [&](WireType type) {
      std::vector<float> data(40'000);
      const std::vector<std::size_t> offsets = {0, data.size()};
      const std::uint64_t before = communicator.bytes_sent();
      communicator.node_reduce_scatter(span_of(data), offsets, {.type = type}).wait();
      std::uint64_t bytes = 0;
      for (const auto& text :
           communicator.exchange(std::to_string(communicator.bytes_sent() - before)))
        bytes += std::stoull(text);
      return bytes;
    };
    // Each node sends its sum to the owners, and what it owns to the others.
    const auto others = static_cast<std::uint64_t>(communicator.placement().num_nodes - 1);
    EXPECT_EQ(bytes_of(WireType::kSame), 2 * others * 40'000 * 4);
    EXPECT_EQ(bytes_of(WireType::kF16), 2 * others * 40'000 * 2);
  });
}

TEST_P(Collectives, HalfWidthSumsAreTheSameOnEveryNodeAndCountWhatTheyLose) {
  if (GetParam().name.starts_with("nccl")) GTEST_SKIP() << "NCCL sums at full width only";
  on_every_rank([](Communicator& communicator) {
    const Placement mine = communicator.placement();
    std::vector<float> data =
        values<float>(communicator.rank(), 5000);  // far beyond 65504, and 0.5
    data[17] = 1e-12f;
    const std::vector<std::size_t> offsets = {0, data.size()};
    WireCounts counts;
    const Wire wire{.type = WireType::kF16, .counts = &counts};
    communicator.node_reduce_scatter(span_of(data), offsets, wire).wait();
    const bool has_all = part_of(offsets, mine.local_rank, mine.local_size).size() > 0;
    std::string bytes(has_all ? data.size() * sizeof(float) : 0, 0);
    if (has_all) std::memcpy(bytes.data(), data.data(), bytes.size());
    const std::vector<std::string> all = communicator.exchange(bytes);
    for (const std::string& other : all) {
      EXPECT_TRUE(other.empty() || other == all.front());
    }
    const std::vector<std::string> lost = communicator.exchange(std::to_string(counts.saturated));
    const bool some = std::any_of(lost.begin(), lost.end(), [](const auto& n) { return n != "0"; });
    EXPECT_EQ(some, mine.num_nodes > 1);
  });
}

// "Within two roundings at 64 ranks": one of the nodes' sums, one of the whole.
TEST(HalfWidth, TheErrorOf64RanksIsThatOfTwoRoundings) {
  run_as_threads(
      64,
      [](Communicator& communicator) {
        constexpr std::size_t kCount = 4096;
        const auto sent = [](int rank, std::size_t i) {
          return static_cast<float>(1 + double((i * 37 + std::size_t(rank) * 101) % 1000) / 1000);
        };
        std::vector<float> data(kCount);
        for (std::size_t i = 0; i < kCount; ++i) data[i] = sent(communicator.rank(), i);
        const std::vector<std::size_t> offsets = {0, kCount};
        const Wire wire{.type = WireType::kF16};
        communicator.node_reduce_scatter(span_of(data), offsets, wire).wait();
        for (std::size_t i = 0; i < kCount; ++i) {
          double exact = 0;
          for (int rank = 0; rank < 64; ++rank) exact += sent(rank, i);
          ASSERT_NEAR(data[i], exact, 2 * std::ldexp(exact, -11)) << i;
        }
      },
      {.ranks_per_node = 1});
}

TEST_P(Collectives, SumsOfLargeIntegersWrapAround) {
  on_every_rank([](Communicator& communicator) {
    std::vector<std::int64_t> data = {INT64_MAX};
    communicator.all_reduce(span_of(data)).wait();
    const auto size = static_cast<std::uint64_t>(communicator.size());
    EXPECT_EQ(data[0], static_cast<std::int64_t>(size * std::uint64_t{INT64_MAX}));
  });
}

TEST_P(Collectives, NotANumberStaysOne) {
  on_every_rank([](Communicator& communicator) {
    std::vector<float> data(3000, 1.0f);
    const bool last = communicator.rank() + 1 == communicator.size();
    if (last) data[2999] = std::nanf("");
    communicator.all_reduce(span_of(data)).wait();
    EXPECT_TRUE(std::isnan(data[2999]));
    EXPECT_EQ(data[2998], static_cast<float>(communicator.size()));
  });
}

TEST_P(Collectives, WrongArgumentsAreAnInternalErrorAtTheCall) {
  on_every_rank([](Communicator& communicator) {
    std::vector<float> data(10);
    std::vector<std::uint8_t> bytes(10);
    const std::vector<std::size_t> short_offsets = {0};
    std::vector<std::size_t> falling(static_cast<std::size_t>(communicator.size()) + 1, 11);
    EXPECT_THROW((void)communicator.all_reduce(span_of(bytes)), InternalError);
    EXPECT_THROW((void)communicator.broadcast(span_of(data), communicator.size()), InternalError);
    EXPECT_THROW((void)communicator.all_gather(span_of(data), short_offsets), InternalError);
    EXPECT_THROW((void)communicator.reduce_scatter(span_of(data), falling), InternalError);
    EXPECT_THROW((void)communicator.all_reduce({nullptr, 3, DType::kF32}), InternalError);
    communicator.barrier();  // the group is still in step
  });
}

}  // namespace
}  // namespace trireme
