// SPDX-License-Identifier: Apache-2.0
// What only ranks as threads can do, and how they fail. What all kinds share: tests/distributed.
#include "comm/threads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "trireme/error.hpp"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The text of the error that run_as_threads ends with; it must be an E.
template <class E>
std::string error_of(int ranks, const std::function<void(Communicator&)>& body,
                     const ThreadsOptions& options = {}) {
  try {
    run_as_threads(ranks, body, options);
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

void all_reduce(Communicator& communicator, std::size_t count) {
  std::vector<float> data(count);
  communicator.all_reduce({data.data(), count, DType::kF32}).wait();
}

TEST(Threads, ARankThatThrowsFreesTheOthersAndItsErrorComesOut) {
  std::atomic<int> freed = 0;
  const auto body = [&](Communicator& communicator) {
    if (communicator.rank() == 2) throw DataError("sample 17 is damaged");
    try {
      communicator.barrier();
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("barrier #0"), HasSubstr("rank 2 threw"),
                                      HasSubstr("sample 17 is damaged")));
      ++freed;
      throw;
    }
  };
  EXPECT_EQ(error_of<DataError>(4, body, {.timeout = milliseconds(0)}), "sample 17 is damaged");
  EXPECT_EQ(freed, 3);
}

TEST(Threads, CallsAfterAFailureFailInEveryGroup) {
  const auto body = [](Communicator& communicator) {
    const auto group = communicator.split(0, 0);
    if (communicator.rank() == 0) throw std::runtime_error("broken");
    EXPECT_THROW(communicator.barrier(), CommError);
    EXPECT_THROW(all_reduce(*group, 10), CommError);
  };
  EXPECT_EQ(error_of<std::runtime_error>(3, body), "broken");
}

TEST(Threads, ATimeOutNamesOperationRankAndWhoIsMissing) {
  std::atomic<bool> timed_out = false;
  const auto body = [&](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) {
      timed_out.wait(false);
      return;
    }
    communicator.set_timeout(milliseconds(20));
    EXPECT_THROW(all_reduce(communicator, 1024), CommError);
    timed_out = true;
    timed_out.notify_all();
  };
  EXPECT_THAT(error_of<CommError>(3, body),
              AllOf(HasSubstr("all_reduce #1 (1024 f32) on rank"), HasSubstr("of 3"),
                    HasSubstr("20 ms"), HasSubstr("waiting for rank 1")));
}

TEST(Threads, ALateRankDoesNotTouchTheMemoryOfAGivenUpOperation) {
  std::atomic<bool> gone = false;
  const auto body = [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      gone.wait(false);
      EXPECT_THROW(all_reduce(communicator, 5000), CommError);
      return;
    }
    communicator.set_timeout(milliseconds(5));
    {
      std::vector<float> data(5000);  // freed before rank 1 arrives; the sanitizers watch
      const Request dropped = communicator.all_reduce({data.data(), data.size(), DType::kF32});
    }
    gone = true;
    gone.notify_all();
  };
  EXPECT_THAT(error_of<CommError>(2, body), HasSubstr("not complete after 5 ms"));
}

TEST(Threads, DifferentCallsAreAnErrorThatNamesBoth) {
  const auto counts = [](Communicator& communicator) {
    all_reduce(communicator, communicator.rank() == 1 ? 20 : 10);
  };
  EXPECT_THAT(error_of<CommError>(3, counts), AllOf(HasSubstr("rank 0 all_reduce #0 (10 f32)"),
                                                    HasSubstr("rank 1 all_reduce #0 (20 f32)")));
  const auto kinds = [](Communicator& communicator) {
    if (communicator.rank() == 0) communicator.barrier();
    if (communicator.rank() == 1) communicator.exchange("abc");
  };
  EXPECT_THAT(error_of<CommError>(2, kinds),
              AllOf(HasSubstr("rank 0 barrier #0"), HasSubstr("rank 1 exchange #0 (3 bytes)")));
}

TEST(Threads, NodesAreRunsOfConsecutiveRanks) {
  const auto body = [](Communicator& communicator) {
    const auto node = communicator.split_by_node();
    EXPECT_EQ(node->size(), communicator.rank() == 4 ? 1 : 2);
    EXPECT_EQ(node->rank(), communicator.rank() % 2);
    const auto reversed = communicator.split(0, -communicator.rank());
    EXPECT_EQ(reversed->split_by_node()->size(), node->size());
  };
  run_as_threads(5, body, {.ranks_per_node = 2});
}

TEST(Threads, TestThrowsWhatTheOperationFailedWith) {
  std::atomic<bool> posted = false;
  const auto body = [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      posted.wait(false);
      throw DataError("damaged");
    }
    std::vector<float> data(10);
    Request request = communicator.all_reduce({data.data(), data.size(), DType::kF32});
    posted = true;
    posted.notify_all();
    const auto poll = [&] {
      while (!request.test()) std::this_thread::yield();
    };
    EXPECT_THROW(poll(), CommError);
  };
  EXPECT_EQ(error_of<DataError>(2, body), "damaged");
}

}  // namespace
}  // namespace trireme
