// SPDX-License-Identifier: Apache-2.0
// What --inject says. What the faults lead to is shown by tests/fault/test_inject.py.
#include "base/inject.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <string>

#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_fault(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << text << " was taken";
  return {};
}

TEST(Fault, IsReadInAnyOrderAndWrittenWithItsDefaults) {
  EXPECT_EQ(text_of(parse_fault("action=kill,rank=1,point=checkpoint.rename")),
            "rank=1,point=checkpoint.rename,hit=1,action=kill");
  for (const char* text :
       {"rank=all,point=log.write,hit=2+,action=enospc", "rank=0,point=forward,hit=3,action=nan",
        "rank=2,point=update.done,hit=1,action=bitflip", "rank=1,point=end,hit=1,action=exit=7",
        "rank=1,point=data.decode,hit=9,action=sleep=0.5"}) {
    EXPECT_EQ(text_of(parse_fault(text)), text);
  }
}

TEST(Fault, ThatIsMisspeltIsRefusedWithASuggestion) {
  EXPECT_THAT(refusal("rank=1,point=checkpoint.renam,action=kill"),
              AllOf(HasSubstr("'checkpoint.renam' is no point"),
                    HasSubstr("did you mean 'checkpoint.rename'")));
  EXPECT_THAT(refusal("rank=1,point=forward,action=kil"), HasSubstr("did you mean 'kill'"));
  EXPECT_THAT(refusal("rnk=1,point=forward,action=kill"), HasSubstr("did you mean 'rank'"));
  EXPECT_THAT(refusal("rank=1,point=elsewhere,action=kill"),
              AllOf(HasSubstr("expected one of start.launch, "), HasSubstr(", end")));
}

TEST(Fault, ThatIsIncompleteOrOutOfRangeIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("rank is missing"));
  EXPECT_THAT(refusal("kill"), HasSubstr("expected rank=RANK,point=POINT"));
  EXPECT_THAT(refusal("rank=1,point=forward"), HasSubstr("action is missing"));
  EXPECT_THAT(refusal("rank=1,rank=2,point=forward,action=kill"),
              HasSubstr("rank stands there twice"));
  for (const char* rank : {"-1", "x", "", "1.5", "99999999999"})
    EXPECT_THAT(refusal(std::string("rank=") + rank + ",point=forward,action=kill"),
                HasSubstr("expected a rank, from 0, or all"));
  for (const char* hit : {"0", "-1", "+", "", "x", "2-"})
    EXPECT_THAT(refusal(std::string("rank=1,point=forward,action=kill,hit=") + hit),
                HasSubstr("expected a number from 1"));
  for (const char* action :
       {"exit", "exit=256", "exit=1.5", "sleep=-1", "sleep=nan", "sleep=1s", "sleep=1e9", "kill=1"})
    EXPECT_THAT(refusal(std::string("rank=1,point=forward,action=") + action),
                HasSubstr("expected action="));
}

TEST(Fault, WithoutMeaningAtItsPointIsRefusedWithWhatHasOne) {
  EXPECT_THAT(
      refusal("rank=0,point=checkpoint.rename,action=nan"),
      AllOf(HasSubstr("nan has no meaning at checkpoint.rename"),
            HasSubstr("expected one of kill, stop, throw, sleep=SECONDS, exit=CODE, enospc")));
  EXPECT_THAT(refusal("rank=0,point=forward,action=enospc"), HasSubstr("exit=CODE, nan"));
  EXPECT_THAT(refusal("rank=0,point=log.write,action=bitflip"), HasSubstr("no meaning"));
}

TEST(FaultReference, HasALineForEachPoint) {
  const std::string text = fault_reference();
  for (const char* line : {"| `forward` | ", "| `checkpoint.rename` | ", "| `end` | "})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, HasSubstr("| 4 | `enospc` |"));
}

// All that one process can show, since faults are armed once: on rank 1, by an error.
TEST(ArmedFaults, HappenAtTheirHitOnTheirRankOnly) {
  EXPECT_NO_THROW(fault_point(FaultPoint::kForward)) << "nothing is armed";
  arm_faults({parse_fault("rank=0,point=agree,action=throw"),
              parse_fault("rank=1,point=data.next,hit=2,action=throw"),
              parse_fault("rank=all,point=forward,hit=2+,action=nan"),
              parse_fault("rank=1,point=checkpoint.open,action=enospc"),
              parse_fault("rank=1,point=end,hit=2,action=throw")},
             1);
  EXPECT_NO_THROW(fault_point(FaultPoint::kAgree)) << "another rank's";
  EXPECT_NO_THROW(fault_point(FaultPoint::kDataNext)) << "the first arrival";
  EXPECT_THROW(fault_point(FaultPoint::kDataNext), DataError) << "the second one";
  EXPECT_NO_THROW(fault_point(FaultPoint::kDataNext)) << "the third one";
  int damages = 0;
  for (int arrival = 1; arrival <= 4; ++arrival)
    fault_point(FaultPoint::kForward, [&] { ++damages; });
  EXPECT_EQ(damages, 3) << "the second arrival and all later ones";
  EXPECT_EQ(take_injected_errno(), 0);
  fault_point(FaultPoint::kCheckpointOpen);
  EXPECT_EQ(take_injected_errno(), ENOSPC);
  EXPECT_EQ(take_injected_errno(), 0) << "one call takes it";
  fault_point(FaultPoint::kEnd);
  EXPECT_EQ(faults_not_reached(),
            (std::vector<std::string>{"rank=1,point=end,hit=2,action=throw"}));
}

TEST(FlipBit, ChangesOneBitInTheMiddle) {
  std::array<std::byte, 5> bytes{};
  flip_bit(bytes);
  EXPECT_EQ(bytes, (std::array<std::byte, 5>{std::byte{0}, std::byte{0}, std::byte{1}}));
  const TemporaryDirectory root;
  const auto path = root.path() / "file";
  std::ofstream(path) << "aaaaa";
  flip_bit(path);
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "aa`aa");
}

}  // namespace
}  // namespace trireme
