// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <sstream>

#include "base/text.hpp"
#include "optim/optimizer.hpp"
#include "optim/patterns.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

ParameterGroup with_defaults(const OptimizerConfig& config, const GroupConfig& own) {
  ParameterGroup group{.settings = config,
                       .duration = own.duration.value_or(0),
                       .frozen = own.frozen,
                       .match = own.match};
  group.settings.groups.clear();
  group.settings.name = own.name.value_or(config.name);
  group.settings.lr = own.lr.value_or(config.lr);
  group.settings.weight_decay = own.weight_decay.value_or(config.weight_decay);
  group.settings.momentum = own.momentum.value_or(config.momentum);
  return group;
}

std::string where(const GroupConfig& group) {
  return (group.origin.empty() ? "" : group.origin + ": ") + "optimizer.groups: match '" +
         group.match + "'";
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::ostringstream text;
  text << '(';
  for (std::size_t i = 0; i < shape.size(); ++i) text << (i == 0 ? "" : ", ") << shape[i];
  text << ')';
  return text.str();
}

// One line an error; empty where each pattern is the first to match some parameter.
std::string check_patterns(const OptimizerConfig& config, const std::vector<std::string>& names,
                           const std::vector<int>& group_of) {
  std::string errors;
  for (std::size_t g = 0; g < config.groups.size(); ++g) {
    const GroupConfig& group = config.groups[g];
    bool matches = false, first = false;
    for (std::size_t p = 0; p < names.size(); ++p) {
      matches = matches || glob_match(group.match, names[p]);
      first = first || group_of[p] == static_cast<int>(g);
    }
    if (!matches) errors += where(group) + " " + matches_nothing(group.match, names) + "\n";
    if (matches && !first) {
      errors += where(group) +
                " has no effect: all it matches belongs to earlier groups; "
                "place the narrower pattern first, or remove this one\n";
    }
  }
  return errors;
}

std::string check_matrices(const ResolvedGroups& resolved, const std::vector<std::string>& names,
                           const std::vector<std::vector<std::int64_t>>& shapes,
                           const std::vector<bool>& frozen) {
  std::string errors;
  for (std::size_t p = 0; p < names.size(); ++p) {
    const ParameterGroup& group = resolved.groups[static_cast<std::size_t>(resolved.group_of[p])];
    if (group.frozen || (!frozen.empty() && frozen[p]) || shapes[p].size() >= 2) continue;
    if (!make_optimizer(group.settings)->needs_whole_parameters()) continue;
    errors += "optimizer.groups: match '" + group.match + "': " + group.settings.name +
              " updates matrices, but parameter '" + names[p] + "' has shape " +
              text_of(shapes[p]) + "; give it a group of its own before this one, " +
              "with name sgd, adam or adamw\n";
  }
  return errors;
}

}  // namespace

ResolvedGroups resolve_groups(const OptimizerConfig& config, const std::vector<std::string>& names,
                              const std::vector<std::vector<std::int64_t>>& shapes,
                              const std::vector<bool>& frozen) {
  TRIREME_ASSERT(names.size() == shapes.size(), "each parameter has a name and a shape");
  TRIREME_ASSERT(frozen.empty() || frozen.size() == names.size(),
                 "each parameter is frozen or not");
  ResolvedGroups resolved;
  for (const GroupConfig& group : config.groups) {
    resolved.groups.push_back(with_defaults(config, group));
  }
  GroupConfig rest;
  rest.match = "*";
  resolved.groups.push_back(with_defaults(config, rest));
  for (const std::string& name : names) {
    int group = 0;
    while (!glob_match(resolved.groups[static_cast<std::size_t>(group)].match, name)) ++group;
    resolved.group_of.push_back(group);
  }
  std::string errors = check_patterns(config, names, resolved.group_of) +
                       check_matrices(resolved, names, shapes, frozen);
  if (!errors.empty()) {
    errors.pop_back();  // the last line break
    throw ConfigError(errors);
  }
  return resolved;
}

}  // namespace trireme
