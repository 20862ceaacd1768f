// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "config/read.hpp"
#include "config/values.hpp"

namespace trireme {
namespace {

// '|' would end a table cell.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string default_text(const FieldSpec& field) {
  if (field.limits.required) return "required";
  if (!field.limits.default_note.empty()) return field.limits.default_note;
  const std::string text = yaml_text(field.default_value);
  return text.empty() ? "as in the section" : "`" + text + "`";
}

std::string row(const FieldSpec& field) {
  std::string help = field.help;
  if (!field.limits.only_for.empty()) {
    std::string names;
    for (const std::string& name : field.limits.only_for) {
      names += (names.empty() ? "" : ", ") + name;
    }
    help += " Only for " + names + ".";
  }
  const std::string type(type_name(field.type));
  return "| `" + field.key + "` | " + (field.limits.time ? "time: seconds, or as 1h30m" : type) +
         " | " + cell(default_text(field)) + " | " + cell(range_text(field.limits)) + " | " +
         cell(help) + " |\n";
}

constexpr const char* kTableHead =
    "| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n";

// The registered parts of a section, each with what it declares.
std::string parts(const Section& section, const DeclaredOptions& declared) {
  std::string page;
  for (const std::string& name : section.registered->names(declared)) {
    page += "\n### " + section.name + ".name: " + name + "\n\n";
    const auto help = declared.help.find(section.name + "." + name);
    if (help != declared.help.end()) page += help->second + "\n\n";
    const std::vector<OptionSpec>& options = declared_options(section, declared, name);
    if (options.empty()) {
      page += "No keys of its own.\n";
      continue;
    }
    page += kTableHead;
    for (const OptionSpec& option : options) page += row(option_field(option));
  }
  return page;
}

}  // namespace

std::string config_reference(const DeclaredOptions& declared) {
  std::string page =
      "# Configuration reference\n\n"
      "Written by `trainer reference` from the table of keys in `framework/src/config/`; do not "
      "edit. A configuration is a\nYAML file of the sections below. Every key can be set on the "
      "command line, too: `optimizer.lr=0.1`, and keys of\nparameter groups by their index: "
      "`optimizer.groups.0.lr=0.1`.\n";
  for (const Section& section : config_sections()) {
    page += "\n## " + section.name + "\n\n" + section.help + "\n\n" + kTableHead;
    for (const Field<Config>& field : section.fields) page += row(field);
    if (section.has_groups) {
      page += "\n### " + section.name +
              ".groups\n\nA list of parameter groups, first match wins; parameters that none "
              "matches follow the section.\n\n" +
              kTableHead;
      for (const Field<GroupConfig>& field : group_fields()) page += row(field);
    }
    if (section.registered) page += parts(section, declared);
  }
  return page;
}

}  // namespace trireme
