// SPDX-License-Identifier: Apache-2.0
// What NCCL's communicator does when something goes wrong, on the fake device.
#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "comm/nccl.hpp"
#include "comm/threads.hpp"
#include "fake_cuda.hpp"
#include "trireme/error.hpp"

namespace trireme::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What on_failure was told, by all ranks.
class Told {
 public:
  void add(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reasons_.push_back(reason);
  }
  std::vector<std::string> reasons() {
    const std::lock_guard lock(mutex_);
    return reasons_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> reasons_;
};

std::unique_ptr<Communicator> make(Communicator& host, Told& told,
                                   std::chrono::milliseconds timeout) {
  return make_nccl_communicator(
      host.split(0, host.rank()),
      {.device = host.rank(), .timeout = timeout, .on_failure = [&told](const std::string& reason) {
         told.add(reason);
       }});
}

Span span_of(std::vector<float>& data) { return {data.data(), data.size(), DType::kF32}; }

TEST(NcclFaults, ARankThatDoesNotComeIsToldAndEndsTheWaitForTheStream) {
  Told told;
  const int aborts_before = num_fake_aborts();
  run_as_threads(2, [&](Communicator& host) {
    const auto gpus = make(host, told, std::chrono::milliseconds(200));
    std::vector<float> data(10, 1.0f);
    if (host.rank() == 0) {
      Request request = gpus->all_reduce(span_of(data));
      // On this device the compute stream is the caller, which only an abort sets free.
      EXPECT_NO_THROW(request.wait());
      EXPECT_THROW(request.wait(), CommError);
      EXPECT_THROW((void)gpus->all_reduce(span_of(data)), CommError);
      EXPECT_THROW(gpus->barrier(), CommError);
    }
    host.barrier();
  });
  ASSERT_THAT(told.reasons(), SizeIs(1));
  EXPECT_THAT(told.reasons()[0],
              AllOf(HasSubstr("all_reduce #0 (10 f32) on rank 0 of 2: not complete after 200 ms"),
                    HasSubstr("run.timeout")));
  EXPECT_EQ(num_fake_aborts(), aborts_before + 1);
}

TEST(NcclFaults, AnErrorThatNcclReportsLaterIsToldOnceAndFailsLaterCalls) {
  Told told;
  run_as_threads(1, [&](Communicator& host) {
    const auto gpus = make(host, told, std::chrono::seconds(60));
    fake_async_error(0, ncclRemoteError);
    while (told.reasons().empty()) std::this_thread::yield();
    fake_async_error(0, ncclSuccess);
    std::vector<float> data(10, 1.0f);
    EXPECT_THROW((void)gpus->all_reduce(span_of(data)), CommError);
  });
  ASSERT_THAT(told.reasons(), SizeIs(1));
  EXPECT_THAT(told.reasons()[0], HasSubstr("NCCL reports remote error"));
}

TEST(NcclFaults, AnErrorAtTheCallIsThrownThere) {
  Told told;
  run_as_threads(1, [&](Communicator& host) {
    const auto gpus = make(host, told, std::chrono::seconds(60));
    fake_async_error(0, ncclRemoteError);
    std::vector<float> data(10, 1.0f);
    try {
      gpus->all_reduce(span_of(data)).wait();
      ADD_FAILURE() << "the error was not noticed";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("remote error"));
    }
    fake_async_error(0, ncclSuccess);
  });
}

TEST(NcclFaults, NoTimeOutWaitsForALateRank) {
  Told told;
  run_as_threads(2, [&](Communicator& host) {
    const auto gpus = make(host, told, std::chrono::milliseconds(0));
    std::vector<float> data(10, 1.0f);
    Request request;
    if (host.rank() == 0) request = gpus->all_reduce(span_of(data));
    host.barrier();
    if (host.rank() == 1) request = gpus->all_reduce(span_of(data));
    request.wait();
    EXPECT_EQ(data[9], 2.0f);
  });
  EXPECT_THAT(told.reasons(), SizeIs(0));
}

TEST(NcclMemory, MoreThanTheDeviceHasIsAnErrorThatNamesTheSize) {
  Told told;
  run_as_threads(1, [&](Communicator& host) {
    const auto gpus = make(host, told, std::chrono::seconds(60));
    try {
      (void)gpus->allocate(std::size_t{1} << 50);
      ADD_FAILURE() << "the device had a pebibyte";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("1125899906842624 bytes on GPU 0"), HasSubstr("out of memory")));
    }
  });
}

}  // namespace
}  // namespace trireme::testing
