// SPDX-License-Identifier: Apache-2.0
#include "comm/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <utility>

#include "comm/memory_file.hpp"
#include "comm/scratch.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

TEST(AllocatePages, IsZeroedAndAlignedAtEverySize) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{65}, std::size_t{64} << 10, (std::size_t{5} << 20) + 3}) {
    const Buffer buffer = allocate_pages(size);
    ASSERT_EQ(buffer.size_bytes(), size);
    const std::size_t alignment = size >= (64 << 10) ? 4096 : 64;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment, 0u) << size;
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + size, [](std::byte byte) {
      return byte == std::byte{0};
    })) << size;
  }
}

TEST(AllocatePages, NothingIsAnEmptyBuffer) {
  const Buffer buffer = allocate_pages(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size_bytes(), 0u);
}

// More than the address space: refused without a page taken.
TEST(AllocatePages, MoreThanThereIsNamesTheSize) {
  try {
    allocate_pages(std::size_t{1} << 62);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("4611686018427387904 bytes"));
  }
}

// 32 TiB, of which no page is taken: more than the limit leaves, also under the address sanitizer.
TEST(MapMemory, WhereAddressesAreLimitedNamesTheLimitAndTheWayOut) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer takes more addresses than a limit can leave";
#endif
  constexpr std::size_t kBytes = std::size_t{1} << 45;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  MemoryFile file;
  file.resize(kBytes);
  rlimit limited = before;
  limited.rlim_cur = kBytes;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  std::string message;
  try {
    map_memory(file.handle(), Access::kRead);
  } catch (const EnvironmentError& error) {
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(message,
              ::testing::HasSubstr("`ulimit -v` allows this process 35184372088832 bytes"));
  EXPECT_THAT(message, ::testing::HasSubstr("--ranks-per-node 1"));
  EXPECT_THAT(message, ::testing::HasSubstr("Cannot allocate memory"));
}

TEST(Buffer, IsGivenBackOnceByItsLastOwner) {
  int freed = 0;
  int data = 0;
  const auto make = [&] {
    return Buffer(&data, sizeof(data), [&](void*, std::size_t) { ++freed; });
  };
  {
    Buffer first = make();
    Buffer second = std::move(first);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): what it promises
    EXPECT_EQ(freed, 0);
    second = make();
    EXPECT_EQ(freed, 1);
  }
  EXPECT_EQ(freed, 2);
}

TEST(ScratchPool, ReusesTheSmallestBlockThatIsLargeEnough) {
  ScratchPool pool(allocate_pages);
  Buffer small = pool.take(100);
  Buffer large = pool.take(10000);
  const std::byte* small_data = small.data();
  const std::byte* large_data = large.data();
  pool.give_back(std::move(large));
  pool.give_back(std::move(small));
  const Buffer again = pool.take(90);
  EXPECT_EQ(again.data(), small_data);
  const Buffer larger = pool.take(9000);
  EXPECT_EQ(larger.data(), large_data);
  EXPECT_GE(pool.take(20000).size_bytes(), 20000u);
}

}  // namespace
}  // namespace trireme
