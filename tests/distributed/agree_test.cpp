// SPDX-License-Identifier: Apache-2.0
#include "comm/agree.hpp"

#include <string>

#include "ranks.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

class RequireEqual : public testing::EveryKind {};
TRIREME_EVERY_KIND(RequireEqual);

// The message of require_equal; empty where it does not throw.
std::string message(Communicator& communicator, const std::vector<std::string>& items) {
  try {
    require_equal(communicator, "the model's parameters", items);
  } catch (const CommError& error) {
    return error.what();
  }
  return {};
}

TEST_P(RequireEqual, EqualListsPass) {
  on_every_rank([](Communicator& communicator) {
    EXPECT_EQ(message(communicator, {}), "");
    EXPECT_EQ(message(communicator, {"fc1.weight [64, 10]", "fc1.bias [64]"}), "");
  });
}

TEST_P(RequireEqual, TheFirstDifferenceIsNamedWithItsRanksEverywhere) {
  on_every_rank([](Communicator& communicator) {
    if (communicator.size() == 1) return;
    const bool swapped = communicator.rank() == 1;
    const std::string text = swapped ? message(communicator, {"conv", "fc2", "fc1"})
                                     : message(communicator, {"conv", "fc1", "fc2"});
    EXPECT_NE(text.find("the model's parameters, item 2"), std::string::npos) << text;
    EXPECT_NE(text.find("'fc2' on rank 1"), std::string::npos) << text;
    EXPECT_NE(text.find("'fc1' on rank 0"), std::string::npos) << text;
    EXPECT_EQ(communicator.exchange(text).front(), text);
  });
}

TEST_P(RequireEqual, AShorterListIsADifference) {
  on_every_rank([](Communicator& communicator) {
    if (communicator.size() == 1) return;
    const std::string text = communicator.rank() == 0 ? message(communicator, {"a"})
                                                      : message(communicator, {"a", "b:1"});
    EXPECT_NE(text.find("nothing on rank 0"), std::string::npos) << text;
    EXPECT_NE(text.find("'b:1' on rank 1"), std::string::npos) << text;
  });
}

TEST_P(RequireEqual, BordersBetweenItemsCount) {
  on_every_rank([](Communicator& communicator) {
    if (communicator.size() == 1) return;
    const std::string text = communicator.rank() == 0 ? message(communicator, {"ab", "c"})
                                                      : message(communicator, {"a", "bc"});
    EXPECT_NE(text.find("item 1"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace trireme
