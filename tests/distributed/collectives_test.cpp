// SPDX-License-Identifier: Apache-2.0
// Every collective against a reference that each rank computes for itself, in rank order, bit for
// bit: so threads and MPI give the same bits, too.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

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

template <class T>
std::vector<T> sum_in_rank_order(int size, std::size_t count) {
  std::vector<T> sum = values<T>(0, count);
  for (int rank = 1; rank < size; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + value<T>(rank, i));
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
  for (const std::size_t count : counts()) {
    std::vector<T> data = values<T>(communicator.rank(), count);
    communicator.all_reduce(span_of(data)).wait();
    const std::vector<T> expected = sum_in_rank_order<T>(communicator.size(), count);
    ASSERT_TRUE(same_bits(data, expected, 0, count)) << count;
  }
}

template <class T>
void check_reduce_scatter(Communicator& communicator) {
  for (const std::size_t count : counts()) {
    const auto offsets = uneven_offsets(count, communicator.size());
    std::vector<T> data = values<T>(communicator.rank(), count);
    communicator.reduce_scatter(span_of(data), offsets).wait();
    const std::vector<T> expected = sum_in_rank_order<T>(communicator.size(), count);
    const int rank = communicator.rank();
    ASSERT_TRUE(same_bits(data, expected, begin_of(offsets, rank), begin_of(offsets, rank + 1)))
        << count;
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
  std::vector<float> backwards = values<float>(3, count);
  for (int rank = 2; rank >= 0; --rank) {
    for (std::size_t i = 0; i < count; ++i) backwards[i] += value<float>(rank, i);
  }
  EXPECT_FALSE(same_bits(backwards, sum_in_rank_order<float>(4, count), 0, count));
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
