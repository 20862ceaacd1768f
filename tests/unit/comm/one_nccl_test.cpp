// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "comm/nccl.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

NcclLibrary one_library() {
  return {.header = "2.28.9",
          .running = "2.28.9",
          .path = "/wheel/libnccl.so.2",
          .torch_path = "/wheel/libnccl.so.2"};
}

TEST(OneNccl, IsWhatHeadersAndFilesAgreeOn) { require_one_nccl(one_library(), "2.28.9"); }

TEST(OneNccl, TwoFilesAreAnErrorThatNamesBoth) {
  NcclLibrary library = one_library();
  library.path = "/usr/lib/libnccl.so.2";
  EXPECT_THAT(
      [&] { require_one_nccl(library, "2.28.9"); },
      ThrowsMessage<EnvironmentError>(AllOf(HasSubstr("Trireme calls /usr/lib/libnccl.so.2"),
                                            HasSubstr("LibTorch calls /wheel/"))));
}

TEST(OneNccl, AnotherVersionThanEitherHeaderIsAnErrorThatNamesAllThree) {
  NcclLibrary library = one_library();
  library.running = "2.18.1";
  EXPECT_THAT([&] { require_one_nccl(library, "2.28.9"); },
              ThrowsMessage<EnvironmentError>(
                  AllOf(HasSubstr("NCCL 2.18.1 is loaded (/wheel/libnccl.so.2)"),
                        HasSubstr("Trireme was built with 2.28.9"))));
  EXPECT_THAT([&] { require_one_nccl(one_library(), "2.27.5"); },
              ThrowsMessage<EnvironmentError>(HasSubstr("LibTorch with 2.27.5")));
}

}  // namespace
}  // namespace trireme
