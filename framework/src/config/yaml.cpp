// SPDX-License-Identifier: Apache-2.0
#include "config/yaml.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <unordered_set>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "base/text.hpp"

namespace trireme {
namespace {

// Far above what a configuration needs, far below what the recursion of yaml-cpp and of our readers
// can take.
constexpr std::size_t kMostDepth = 16;
constexpr std::size_t kMostNodes = 100'000;

// Length of the UTF-8 character that starts at text[i], or 0 where the bytes are not UTF-8 (RFC
// 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) {
    return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2   ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  std::uint32_t code = first & (0x7fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
    code = (code << 6) | (byte(k) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool outside = (code >= 0xd800 && code < 0xe000) || code > 0x10ffff;
  return overlong || outside ? 0 : length;
}

// The text's own idea of where it is.
struct Source {
  std::string override_key;  // "" for a file
  int file;
  Place place(int line, int column) const {
    return override_key.empty() ? Place{line, column, file} : Place{};
  }
};

// What is wrong with the character at text[i], "" where nothing is: what is no text, and what
// yaml-cpp would read differently from what a person sees. length: of the character, 0 where it is
// not UTF-8.
std::string fault_of(std::string_view text, std::size_t i, std::size_t length, bool line_start,
                     bool indenting) {
  const char c = text[i];
  if (length == 0) return "not UTF-8 text; save the file as UTF-8";
  if (c == '\t' && indenting) {
    return "a tab in the indentation; YAML allows spaces only; replace it by spaces";
  }
  if (c == '%' && line_start) {
    return "a YAML directive ('%'); a configuration has none; delete the line";
  }
  const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  if (control && c != '\n' && c != '\t') {
    return "a control character (" + printable(text.substr(i, 1)) +
           "); expected plain text; delete it";
  }
  return "";
}

// The text with \n line ends and without a byte order mark.
std::string checked_text(std::string_view text, const Source& source, Problems& problems) {
  if (text.size() > kMostConfigBytes) {
    problems.fail(source.place(1, 1), source.override_key,
                  std::to_string(text.size()) + " bytes; a configuration has at most " +
                      std::to_string(kMostConfigBytes) + "; is this the right file?");
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::string result;
  result.reserve(text.size());
  int line = 1;
  std::size_t line_start = 0;
  bool indenting = true;
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "\r\n") ++i;
    const std::size_t length = utf8_length(text, i);
    const std::string fault = fault_of(text, i, length, i == line_start, indenting);
    if (!fault.empty()) {
      const Place place = source.place(line, static_cast<int>(i - line_start) + 1);
      problems.fail(place, source.override_key, fault);
    }
    result.append(text.substr(i, length));
    indenting = text[i] == '\n' || (indenting && text[i] == ' ');
    if (text[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
    i += length;
  }
  return result;
}

// Whether the text in quotes that starts at text[start] ends on the same line; true where there are
// no quotes. yaml-cpp takes the end of the file for a closing quote.
bool quotes_end(std::string_view text, std::size_t start) {
  const char quote = start < text.size() ? text[start] : ' ';
  if (quote != '"' && quote != '\'') return true;
  for (std::size_t i = start + 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == quote) return true;  // '' inside single quotes: another one follows
    if (text[i] == '\\' && quote == '"') ++i;
  }
  return false;
}

// Builds the tree from yaml-cpp's events, which come depth first. Throwing from here unwinds
// yaml-cpp's own recursion, which is how depth and size are bounded before they can do harm.
class TreeBuilder : public YAML::EventHandler {
 public:
  // text: what is parsed; kept by the caller.
  TreeBuilder(std::string_view text, Source source, Problems& problems)
      : text_(text), source_(std::move(source)), problems_(problems) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      problems_.fail(place(mark), path(),
                     "text after the end of the document; expected one YAML document in a file");
    }
  }
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    problems_.add(
        place(mark), path(),
        "an anchor ('&" + printable(name) + "'); anchors are not supported; write the value out");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problems_.add(place(mark), path(),
                  "an alias ('*'); aliases are not supported; write the value out");
    leaf(YamlNode(YamlNode::Kind::kRefused, place(mark)));
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    leaf(YamlNode(YamlNode::Kind::kNull, place(mark)));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    const bool ok = check_tag(mark, tag);
    if (!quotes_end(text_, static_cast<std::size_t>(mark.pos))) {
      problems_.fail(place(mark), path(),
                     "the text in quotes does not end on its line; add the closing quote");
    }
    YamlNode node(ok ? YamlNode::Kind::kScalar : YamlNode::Kind::kRefused, place(mark));
    node.text = value;
    node.quoted = tag == "!";
    leaf(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(YamlNode(YamlNode::Kind::kList, place(mark)));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(YamlNode(YamlNode::Kind::kMap, place(mark)));
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is not finished.
  struct Level {
    YamlNode node;
    std::optional<YamlEntry> pending;      // kMap: the key whose value comes next
    std::unordered_set<std::string> keys;  // kMap: met so far
  };

  Place place(const YAML::Mark& mark) const {
    return source_.place(mark.line + 1, mark.column + 1);
  }

  // "optimizer.groups.0": where the events are, for messages.
  std::string path() const {
    std::string result = source_.override_key;
    for (const Level& level : levels_) {
      const bool list = level.node.kind == YamlNode::Kind::kList;
      const std::string part = list            ? std::to_string(level.node.items.size())
                               : level.pending ? level.pending->key
                                               : "";
      if (!part.empty()) result += (result.empty() ? "" : ".") + part;
    }
    return result;
  }

  // yaml-cpp says "?" for what has no tag and "!" for what is quoted.
  bool check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return true;
    problems_.add(place(mark), path(),
                  "a YAML tag (" + quoted(tag) + "); tags are not supported; delete it");
    return false;
  }

  void count_node(const Place& at) {
    if (++nodes_ <= kMostNodes) return;
    problems_.fail(at, path(),
                   "more than " + std::to_string(kMostNodes) + " values; is this the right file?");
  }

  bool expects_key() const {
    return !levels_.empty() && levels_.back().node.kind == YamlNode::Kind::kMap &&
           !levels_.back().pending;
  }

  void leaf(YamlNode node) {
    count_node(node.place);
    if (expects_key()) {
      begin_entry(node);
    } else {
      attach(std::move(node));
    }
  }

  void open(YamlNode node) {
    count_node(node.place);
    if (expects_key()) {
      problems_.fail(node.place, path(),
                     "a list or mapping as a key; expected a word; is a bracket not closed?");
    }
    if (levels_.size() >= kMostDepth) {
      problems_.fail(node.place, path(),
                     "nested more than " + std::to_string(kMostDepth) +
                         " deep; a configuration has sections and keys");
    }
    levels_.push_back({.node = std::move(node), .pending = {}, .keys = {}});
  }

  void close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    attach(std::move(node));
  }

  void begin_entry(const YamlNode& key) {
    if (key.kind != YamlNode::Kind::kScalar || key.text.empty()) {
      problems_.add(key.place, path(), "a key is missing before ':' or ','; expected key: value");
      levels_.back().pending = YamlEntry{};
      return;
    }
    levels_.back().pending = YamlEntry{.key = key.text, .place = key.place, .value = {}};
    if (key.text == "<<") {
      problems_.add(key.place, path(), "merge keys are not supported; write the keys out");
    } else if (!levels_.back().keys.insert(key.text).second) {
      problems_.add(key.place, path(),
                    "duplicate key; it is set above already; delete one of the two");
    } else {
      return;
    }
    levels_.back().pending->key.clear();
  }

  void attach(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::kList) {
      level.node.items.push_back(std::move(node));
      return;
    }
    YamlEntry entry = *std::exchange(level.pending, std::nullopt);
    if (entry.key.empty()) return;  // refused above
    // yaml-cpp puts the mark of an empty value behind it, often on the next line.
    if (node.kind == YamlNode::Kind::kNull) node.place = entry.place;
    entry.value = std::move(node);
    level.node.entries.push_back(std::move(entry));
  }

  std::string_view text_;
  Source source_;
  Problems& problems_;
  YamlNode root_;
  std::vector<Level> levels_;  // [depth]
  int documents_ = 0;
  std::size_t nodes_ = 0;
};

std::string hint(const std::string& message) {
  if (message == YAML::ErrorMsg::UNKNOWN_ANCHOR) {
    return "; aliases ('*') are not supported; put a text that starts with '*' into quotes";
  }
  if (message == YAML::ErrorMsg::UNKNOWN_TOKEN) {
    return "; put a text that starts with '@', '`' or '%' into quotes";
  }
  return "; expected key: value lines below sections, indented by spaces";
}

}  // namespace

YamlNode::YamlNode(Kind node_kind, Place node_place) : kind(node_kind), place(node_place) {}

YamlNode* YamlNode::find(std::string_view key) {
  for (YamlEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

YamlNode parse_yaml(std::string_view text, std::string_view override_key, Problems& problems,
                    int file) {
  const Source source{std::string(override_key), file};
  const std::string checked = checked_text(text, source, problems);
  std::istringstream stream(checked);
  TreeBuilder builder(checked, source, problems);
  try {
    YAML::Parser parser(stream);
    // The second call finds what follows the document.
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& error) {
    // yaml-cpp's null mark is -1.
    const int line = std::max(error.mark.line, 0) + 1;
    const int column = std::max(error.mark.column, 0) + 1;
    problems.fail(source.place(line, column), source.override_key,
                  "not valid YAML: " + error.msg + hint(error.msg));
  }
  return builder.take();
}

}  // namespace trireme
