// SPDX-License-Identifier: Apache-2.0
#include "device/gpu.hpp"

#include <gmock/gmock.h>

#include "trireme/error.hpp"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ChooseGpu, TheOnlyOneInSightIsTheRanksWhateverItsNumber) {
  EXPECT_EQ(choose_gpu(1, 0, 1), 0);
  EXPECT_EQ(choose_gpu(1, 3, 4), 0);
}

TEST(ChooseGpu, SeveralAreDealtByTheRanksNumberOnItsNode) {
  EXPECT_EQ(choose_gpu(4, 0, 4), 0);
  EXPECT_EQ(choose_gpu(4, 3, 4), 3);
  EXPECT_EQ(choose_gpu(8, 1, 2), 1);
}

TEST(ChooseGpu, FewerThanRanksIsAnErrorThatCountsBoth) {
  EXPECT_THAT([] { choose_gpu(2, 1, 3); },
              ThrowsMessage<EnvironmentError>(AllOf(HasSubstr("3 ranks on this node share 2 GPUs"),
                                                    HasSubstr("run.device=cpu"))));
}

TEST(OwnGpus, DifferentOnesAreFine) {
  require_own_gpus({});
  require_own_gpus({"GPU-a", "GPU-b", "GPU-c"});
}

TEST(OwnGpus, TheSameOneTwiceNamesBothRanks) {
  EXPECT_THAT(
      [] {
        require_own_gpus({"GPU-a", "GPU-b", "GPU-c", "GPU-b"});
      },
      ThrowsMessage<EnvironmentError>(HasSubstr("ranks 1 and 3 have the same GPU (GPU-b)")));
}

}  // namespace
}  // namespace trireme
