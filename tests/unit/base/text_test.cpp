// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(GlobMatch, StarMatchesAnyCharactersDotsAndNoneToo) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("*.bias", "layer1.0.bias"));
  EXPECT_TRUE(glob_match("layer*", "layer"));
  EXPECT_TRUE(glob_match("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(glob_match("a*b*c", "aXbYbZ"));
  EXPECT_FALSE(glob_match("*.bias", "layer1.0.weight"));
}

TEST(GlobMatch, QuestionMarkMatchesExactlyOneCharacter) {
  EXPECT_TRUE(glob_match("conv?.weight", "conv1.weight"));
  EXPECT_FALSE(glob_match("conv?.weight", "conv.weight"));
  EXPECT_FALSE(glob_match("conv?.weight", "conv12.weight"));
}

TEST(GlobMatch, MatchesTheWholeTextAndNothingElseIsSpecial) {
  EXPECT_FALSE(glob_match("bias", "bias2"));
  EXPECT_FALSE(glob_match("", "x"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_TRUE(glob_match("[a-z]+", "[a-z]+"));
  EXPECT_FALSE(glob_match("a.c", "abc"));
}

TEST(GlobMatch, ManyStarsTakeNoExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "a*";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(10'000, 'a')));
}

TEST(Joined, PutsTheSeparatorBetweenOnly) {
  EXPECT_EQ(joined({}), "");
  EXPECT_EQ(joined({"a"}), "a");
  EXPECT_EQ(joined({"a", "", "b"}), "a, , b");
  EXPECT_EQ(joined({"a", "b"}, ","), "a,b");
}

TEST(Plural, IsForAllNumbersButOne) {
  EXPECT_EQ(plural(0, "rank"), "0 ranks");
  EXPECT_EQ(plural(1, "rank"), "1 rank");
  EXPECT_EQ(plural(2, "rank"), "2 ranks");
}

TEST(Nearest, FindsLettersSwappedMissingAddedAndReplaced) {
  const std::vector<std::string> keys{"momentum", "weight_decay", "lr", "nesterov"};
  EXPECT_THAT(nearest("momnetum", keys), ElementsAre("momentum"));
  EXPECT_THAT(nearest("momentm", keys), ElementsAre("momentum"));
  EXPECT_THAT(nearest("momenttum", keys), ElementsAre("momentum"));
  EXPECT_THAT(nearest("weight-decay", keys), ElementsAre("weight_decay"));
  EXPECT_THAT(nearest("rl", keys), ElementsAre("lr"));
}

TEST(Nearest, IgnoresTheCaseOfLetters) {
  EXPECT_THAT(nearest("ADAMW", {"sgd", "adamw"}), ElementsAre("adamw"));
}

TEST(Nearest, PutsTheBestFirstAndGivesAtMostAsManyAsAsked) {
  EXPECT_THAT(nearest("adamw", {"adam", "adamw", "adams"}), ElementsAre("adamw", "adam", "adams"));
  EXPECT_THAT(nearest("adamw", {"adam", "adamw", "adams"}, 1), ElementsAre("adamw"));
}

TEST(Nearest, GivesNothingForWordsThatAreFarFromAll) {
  EXPECT_THAT(nearest("banana", {"lr", "momentum"}), IsEmpty());
  EXPECT_THAT(nearest("x", {"a", "b"}), IsEmpty());
  EXPECT_THAT(nearest("", {"lr"}), IsEmpty());
  EXPECT_THAT(nearest(std::string(1'000'000, 'm'), {"momentum"}), IsEmpty());
}

TEST(DidYouMean, ListsTheCandidatesInPlainEnglish) {
  EXPECT_EQ(did_you_mean("epocs", {"epochs"}), "did you mean 'epochs'?");
  EXPECT_EQ(did_you_mean("adamx", {"adam", "adamw"}), "did you mean 'adam' or 'adamw'?");
  EXPECT_EQ(did_you_mean("abcx", {"abcd", "abce", "abcf"}),
            "did you mean 'abcd', 'abce' or 'abcf'?");
  EXPECT_EQ(did_you_mean("banana", {"lr"}), "");
}

}  // namespace
}  // namespace trireme
