// SPDX-License-Identifier: Apache-2.0
// What YAML allows and a configuration does not, each refused at its line and column.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "unit/config/support.hpp"

namespace trireme {
namespace {

using namespace std::string_view_literals;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// kValid with `from` replaced by `to`; from "": `to` is appended; from "all": `to` is the whole
// text.
struct BadText {
  const char* name;
  std::string_view from, to;
  const char* where;  // start of the message
  const char* what;   // part of it

  std::string text() const {
    if (from == "all") return std::string(to);
    std::string text = kValid;
    if (from.empty()) return text.append(to);
    return text.replace(text.find(from), from.size(), to);
  }
};

std::string replace(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

class StrictYaml : public testing::TestWithParam<BadText> {};

TEST_P(StrictYaml, IsRefusedAtItsPlace) {
  const std::string errors = errors_of(GetParam().text());
  EXPECT_THAT(errors, StartsWith(GetParam().where));
  EXPECT_THAT(errors, HasSubstr(GetParam().what));
  EXPECT_THAT(errors, Not(HasSubstr("\n"))) << "one fault, one line";
}

constexpr BadText kBadTexts[] = {
    {"Empty", "all", "", "a.yaml:1:1: ", "file is empty"},
    {"OnlyComments", "all", "# nothing\n", "a.yaml:1:1: ", "file is empty"},
    {"OnlyNull", "all", "~\n", "a.yaml:1:1: ", "file is empty"},
    {"TopIsList", "all", "- a\n- b\n", "a.yaml:1:1: ", "expected sections"},
    {"TopIsText", "all", "hello\n", "a.yaml:1:1: ", "expected sections"},
    {"TwoDocuments", "", "---\nrun:\n  seed: 1\n", "a.yaml:11:1: ", "one YAML document"},
    {"TextAfterTheEnd", "", "...\nrun: 1\n", "a.yaml:12:1: ", "one YAML document"},
    {"DuplicateSection", "", "model:\n  init: normal\n", "a.yaml:11:1: model: ", "duplicate key"},
    {"DuplicateKey", "lr: 0.1\n", "lr: 0.1\n  lr: 0.2\n",
     "a.yaml:8:3: optimizer.lr: ", "duplicate key"},
    {"DuplicateKeyInGroup", "lr: 0.1\n", "lr: 0.1\n  groups: [{match: a, match: b}]\n",
     "a.yaml:8:23: optimizer.groups.0.match: ", "duplicate key"},
    {"MergeKey", "lr: 0.1\n", "lr: 0.1\n  <<: {eps: 1}\n",
     "a.yaml:8:3: optimizer.<<: ", "merge keys are not supported"},
    {"Anchor", "lr: 0.1", "lr: &rate 0.1", "a.yaml:7:7: optimizer.lr: ", "anchor ('&rate')"},
    {"AliasOfNothing", "lr: 0.1", "lr: *rate",
     "a.yaml:7:7: ", "put a text that starts with '*' into quotes"},
    {"Tag", "lr: 0.1", "lr: !!float 0.1", "a.yaml:7:7: optimizer.lr: ", "tags are not supported"},
    {"Directive", "all", "%YAML 1.2\n---\nmodel:\n", "a.yaml:1:1: ", "directive"},
    {"TabAsIndentation", "  lr", "\tlr", "a.yaml:7:1: ", "a tab in the indentation"},
    {"TabBehindSpaces", "  lr", "  \tlr", "a.yaml:7:3: ", "a tab in the indentation"},
    {"Nul", "0.1", "0\0.1"sv, "a.yaml:7:8: ", "control character (\\x00)"},
    {"Escape", "0.1", "\x1b[31m0.1", "a.yaml:7:7: ", "control character (\\x1b)"},
    {"LoneCarriageReturn", "lr: 0.1\n", "lr: 0.1\r", "a.yaml:7:10: ", "control character (\\x0d)"},
    {"Latin1", "0.1", "0.1 # \xe9t\xe9", "a.yaml:7:13: ", "not UTF-8"},
    {"OverlongUtf8", "0.1", "0.1 # \xc0\xaf", "a.yaml:7:13: ", "not UTF-8"},
    {"SurrogateInUtf8", "0.1", "0.1 # \xed\xa0\x80", "a.yaml:7:13: ", "not UTF-8"},
    {"CutUtf8", "", "# \xe2\x82", "a.yaml:11:3: ", "not UTF-8"},
    {"Utf16", "all", "\xff\xfem\0o\0"sv, "a.yaml:1:1: ", "not UTF-8"},
    {"KeyIsList", "all", "? [a, b]\n: c\n", "a.yaml:1:3: ", "a list or mapping as a key"},
    {"KeyIsMissing", "lr: 0.1\n", "lr: 0.1\n  : 1\n",
     "a.yaml:8:3: optimizer: ", "a key is missing"},
    {"ListIsNotClosed", "lr: 0.1", "lr: [0.1", "a.yaml:", "not valid YAML"},
    {"QuoteIsNotClosed", "name: sgd", "name: \"sgd",
     "a.yaml:6:9: optimizer.name: ", "does not end on its line"},
    {"QuoteIsNotClosedAtTheEnd", "", "run:\n  name: 'a\n",
     "a.yaml:12:9: run.name: ", "does not end on its line"},
    {"QuotedTextOverTwoLines", "name: sgd", "name: \"s\n   gd\"",
     "a.yaml:6:9: optimizer.name: ", "does not end on its line"},
    {"TwoColons", "lr: 0.1", "lr: 0.1: 2", "a.yaml:7:10: ", "not valid YAML"},
    {"WrongIndentation", "  lr", "    lr", "a.yaml:7:7: ", "not valid YAML"},
    {"Unindented", "  lr", " lr", "a.yaml:7:2: ", "not valid YAML"},
    {"TooDeep", "  lr: 0.1", "  lr: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {",
     "a.yaml:7:63: optimizer.lr.a", "nested more"},
};

INSTANTIATE_TEST_SUITE_P(Texts, StrictYaml, testing::ValuesIn(kBadTexts),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(StrictYamlTexts, MoreThanAMegabyteIsRefusedUnread) {
  EXPECT_THAT(errors_of(std::string(1'000'001, '\n')), StartsWith("a.yaml:1:1: 1000001 bytes"));
}

TEST(StrictYamlTexts, AliasesAreRefusedWithTheirAnchors) {
  const std::string errors =
      errors_of("run: &a {seed: 1}\nmodel: *a\n" + kValid.substr(kValid.find("data:")));
  EXPECT_THAT(errors, HasSubstr("a.yaml:1:6: run: an anchor ('&a')"));
  EXPECT_THAT(errors, HasSubstr("a.yaml:2:8: model: an alias"));
}

TEST(StrictYamlTexts, AliasesWithoutEndAreNotExpanded) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb +=
        "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last + ", " + last + "]\n";
  }
  EXPECT_THAT(errors_of(bomb), HasSubstr("a.yaml:1:5: a0: an anchor"));
}

TEST(StrictYamlTexts, LineEndsOfWindowsAndAByteOrderMarkAreFine) {
  std::string text;
  for (const char c : kValid) text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(errors_of(text), "");
  EXPECT_EQ(errors_of("\xef\xbb\xbf" + kValid), "");
  EXPECT_THAT(errors_of(replace(text, "0.1", "abc")), StartsWith("a.yaml:7:7: optimizer.lr: "));
}

TEST(StrictYamlTexts, FlowStyleCommentsDocumentMarksAndTextBeyondAsciiAreFine) {
  EXPECT_EQ(
      errors_of("--- # a run\nmodel: {name: mlp}\ndata: {name: synthetic, path: \"h\u00e9\"}\n"
                "optimizer: {\"name\": 'sgd', lr: 0.1}\t# fast\n"
                "train: {epochs: 1, global_batch: 2}\n...\n"),
      "");
}

TEST(StrictYamlTexts, AllErrorsComeAtOnceInTheOrderOfTheFile) {
  const std::string errors = errors_of(
      "train:\n  epochs: many\n  global_batch: 0\nmodell: {}\n"
      "model:\n  name: mlpp\noptimizer:\n  lr: 010\n  name: sgdd\n",
      {"log.every_steps=0"});
  EXPECT_EQ(errors,
            "a.yaml:1:1: data.name: is missing; expected a text\n"
            "a.yaml:2:11: train.epochs: 'many' is not a number; expected a number in [0, 1000000]\n"
            "a.yaml:3:17: train.global_batch: 0 is out of range; expected an integer in "
            "[1, 2147483647]\n"
            "a.yaml:4:1: modell: unknown section; did you mean 'model'?\n"
            "a.yaml:6:9: model.name: no model is called 'mlpp'; expected one of convnet, mlp; did "
            "you mean 'mlp'?\n"
            "a.yaml:8:7: optimizer.lr: a leading zero in '010'; expected a number in (0, 1000000]\n"
            "a.yaml:9:9: optimizer.name: 'sgdd' is not one of the choices; expected one of sgd | "
            "adam | adamw | muon; did you mean 'sgd'?\n"
            "command line: log.every_steps: 0 is out of range; expected an integer >= 1");
}

TEST(StrictYamlTexts, DeepNestingEndsBeforeAnyRecursionDoesHarm) {
  for (const char* piece : {"[", "{", "- ", "? ", "{a: ", "[[a], ", "- - "}) {
    std::string text = "model: ";
    while (text.size() < 300'000) text += piece;
    EXPECT_THAT(errors_of(text), StartsWith("a.yaml:1:")) << piece;
  }
}

TEST(StrictYamlTexts, ATextOfNothingButErrorsGivesAShortMessage) {
  std::string text = kValid;
  for (int i = 0; i < 1000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const std::string errors = errors_of(text);
  EXPECT_THAT(errors, AllOf(StartsWith("a.yaml:11:1: key0: "), EndsWith("and 950 more errors")));
}

TEST(StrictYamlTexts, MessagesShowNoRawControlCharactersAndNoMegabytes) {
  const std::string value(100'000, 'x');
  const std::string errors = errors_of(replace(kValid, "0.1", "\"\\e" + value + "\""));
  EXPECT_THAT(errors, HasSubstr("'\\x1bxxx"));
  EXPECT_LT(errors.size(), 300u);
}

}  // namespace
}  // namespace trireme
