// SPDX-License-Identifier: Apache-2.0
#include "base/stack.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace trireme::test {
namespace {

TEST(StackTest, OfAThreadThatSleepsNamesWhereItSleeps) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer delivers signals late, at calls of its own";
#endif
  std::atomic<bool> stop = false, asleep = false;
  std::thread sleeper([&] {
    asleep = true;
    while (!stop) {
      timespec time{.tv_sec = 0, .tv_nsec = 1'000'000};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
    }
  });
  while (!asleep) std::this_thread::yield();
  std::string text;
  // It may be caught between two sleeps.
  for (int i = 0; i < 1000 && text.find("nanosleep") == std::string::npos; ++i)
    text = stack_of(sleeper.native_handle());
  stop = true;
  sleeper.join();
  EXPECT_THAT(text, ::testing::HasSubstr("nanosleep"));
  EXPECT_THAT(text, ::testing::StartsWith("  #0 "));
}

TEST(StackDeathTest, ACrashTellsWhoAndWhereAndEndsByItsSignal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        report_crashes("rank 3 (somehost)");
        std::raise(SIGSEGV);
      },
      ::testing::KilledBySignal(SIGSEGV),
      "trireme: rank 3 \\(somehost\\) crashed: SIGSEGV.*the stack");
}

}  // namespace
}  // namespace trireme::test
