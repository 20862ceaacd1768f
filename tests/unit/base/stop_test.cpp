// SPDX-License-Identifier: Apache-2.0
#include "base/stop.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace trireme {
namespace {

TEST(StopSignals, RequestsBeforeTheTrainingAreRemembered) {
  remember_requests();
  std::raise(SIGUSR1);
  std::raise(SIGUSR2);
  const StopSignals signals;
  EXPECT_TRUE(signals.stop_requested());
  EXPECT_TRUE(take_save_request());
}

TEST(StopSignals, RequestsAfterTheTrainingEndNothing) {
  remember_requests();
  { const StopSignals signals; }
  std::raise(SIGUSR1);
  std::raise(SIGUSR2);
}

TEST(StopSignals, EachRequestForACheckpointIsTakenOnceAndStopsNothing) {
  remember_requests();
  const StopSignals signals;
  EXPECT_FALSE(take_save_request());
  for (int i = 0; i < 2; ++i) {
    std::raise(SIGUSR2);
    EXPECT_TRUE(take_save_request());
    EXPECT_FALSE(take_save_request());
  }
  EXPECT_FALSE(signals.stop_requested());
}

TEST(StopSignals, ARequestToStopStands) {
  remember_requests();
  const StopSignals signals;
  EXPECT_FALSE(signals.stop_requested());
  for (const int signal : {SIGUSR1, SIGTERM, SIGTERM, SIGINT}) std::raise(signal);
  EXPECT_TRUE(signals.stop_requested());
  EXPECT_TRUE(signals.stop_requested());
}

TEST(StopSignalsDeathTest, OnlyATrainingOutlivesTheSignalsThatEnd) {
  const auto end_with = [](int signal) {
    remember_requests();
    { const StopSignals signals; }
    std::raise(signal);
  };
  EXPECT_EXIT(end_with(SIGTERM), testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(end_with(SIGINT), testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignalsDeathTest, ASecondInterruptEndsAtOnceWhateverCameBetween) {
  const StopSignals signals;
  std::raise(SIGINT);
  std::raise(SIGTERM);
  EXPECT_EXIT(std::raise(SIGINT), testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace trireme
