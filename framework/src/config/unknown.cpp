// SPDX-License-Identifier: Apache-2.0
#include "config/unknown.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.hpp"
#include "config/problems.hpp"

namespace trireme {
namespace {

std::string listed(const std::vector<std::string>& words) {
  return words.empty() ? "nothing" : joined(words);
}

// The keys that a word may stand for: each by its own name and by its synonyms.
class Candidates {
 public:
  void add(const FieldSpec& field) {
    keys_.push_back(field.key);
    add(field.key, field.key);
    for (const std::string& synonym : field.limits.synonyms) add(synonym, field.key);
  }
  void add_key(const std::string& key) {
    keys_.push_back(key);
    add(key, key);
  }

  // "unknown key; ..." or, where nothing is near, "unknown key; " + otherwise.
  std::string explain(const std::string& word, const std::string& otherwise) const {
    std::vector<std::string> keys;
    for (const std::string& near : nearest(word, words_)) {
      const std::string& key = key_of_.at(near);
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
    if (keys.empty()) return "unknown key; " + otherwise;
    std::string list = "unknown key; did you mean ";
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i > 0) list += i + 1 == keys.size() ? " or " : ", ";
      list += "'" + keys[i] + "'";
    }
    return list + "?";
  }

  const std::vector<std::string>& keys() const { return keys_; }

 private:
  void add(const std::string& word, const std::string& key) {
    words_.push_back(word);
    key_of_.emplace(word, key);
  }

  std::vector<std::string> keys_, words_;
  std::map<std::string, std::string> key_of_;  // [word]
};

// "did you mean 'optimizer.lr'?" where another section has exactly this key; "" where none has.
std::string in_other_section(const std::string& key) {
  std::string list;
  for (const Section& section : config_sections()) {
    for (const Field<Config>& field : section.fields) {
      const std::vector<std::string>& synonyms = field.limits.synonyms;
      // Every second section has a `name`: no hint at all.
      const bool same =
          key != "name" && (field.key == key || std::ranges::find(synonyms, key) != synonyms.end());
      if (same) list += (list.empty() ? "'" : " or '") + section.name + "." + field.key + "'";
    }
  }
  return list.empty() ? "" : "did you mean " + list + "?";
}

// "it is an option of the models mlp, gpt"; "" where no part declares it.
std::string owners(const Registered& registered, const std::string& key,
                   const DeclaredOptions& declared) {
  std::vector<std::string> names;
  for (const std::string& name : registered.names(declared)) {
    const std::vector<OptionSpec>* options = registered.options(declared, name);
    if (options == nullptr) continue;
    const auto found = std::ranges::find(*options, key, &OptionSpec::name);
    if (found != options->end()) names.push_back(name);
  }
  return names.empty() ? "" : "it is an option of " + registered.part + " " + listed(names);
}

}  // namespace

std::string unknown_key(const Section& section, const std::string& key,
                        const DeclaredOptions& declared, const std::string& part) {
  if (section.registered) {
    const std::string others = owners(*section.registered, key, declared);
    if (!others.empty()) {
      return "unknown key; " + others + ", but " + section.name + ".name is " + quoted(part);
    }
  }
  Candidates candidates;
  for (const Field<Config>& field : section.fields) candidates.add(field);
  if (section.has_groups) candidates.add_key("groups");
  for (const OptionSpec& option : declared_options(section, declared, part)) {
    candidates.add_key(option.name);
  }
  const std::string elsewhere = in_other_section(key);
  return candidates.explain(
      key, elsewhere.empty() ? "expected one of " + listed(candidates.keys()) : elsewhere);
}

std::string unknown_group_key(const std::string& key) {
  Candidates candidates;
  for (const Field<GroupConfig>& field : group_fields()) candidates.add(field);
  return candidates.explain(key, "expected one of " + listed(candidates.keys()));
}

std::string unknown_section(const std::string& name) {
  std::vector<std::string> sections;
  for (const Section& section : config_sections()) sections.push_back(section.name);
  std::string hint = did_you_mean(name, sections);
  if (hint.empty()) hint = in_other_section(name);
  if (hint.empty()) hint = "expected one of " + listed(sections);
  return "unknown section; " + hint;
}

std::string unknown_part(const Registered& registered, const DeclaredOptions& declared,
                         const std::string& name) {
  const std::vector<std::string> names = registered.names(declared);
  const std::string hint = did_you_mean(name, names);
  return "no " + registered.part + " is called " + quoted(name) + "; expected one of " +
         listed(names) + (hint.empty() ? "" : "; " + hint);
}

}  // namespace trireme
