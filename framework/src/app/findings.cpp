// SPDX-License-Identifier: Apache-2.0
#include "app/findings.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include <nlohmann/json.hpp>

#include "comm/shared_error.hpp"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Verdict verdict) {
  constexpr std::array<const char*, 3> kNames{"ok", "warn", "fail"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::string pack(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({finding.check, static_cast<int>(finding.verdict), finding.text, finding.hint});
  }
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool same(const Finding& a, const Finding& b) {
  return a.check == b.check && a.verdict == b.verdict && a.text == b.text && a.hint == b.hint;
}

// Beside the other findings of its check, so that lines that differ stand together.
void add(std::vector<Finding>& all, Finding finding, int rank) {
  const auto known =
      std::ranges::find_if(all, [&](const Finding& other) { return same(other, finding); });
  if (known != all.end()) {
    known->ranks.push_back(rank);
    return;
  }
  finding.ranks = {rank};
  const auto last = std::find_if(
      all.rbegin(), all.rend(), [&](const Finding& other) { return other.check == finding.check; });
  all.insert(last == all.rend() ? all.end() : last.base(), std::move(finding));
}

}  // namespace

std::vector<Finding> gather_findings(Communicator& world, const std::vector<Finding>& mine) {
  std::vector<Finding> all;
  int rank = 0;
  for (const std::string& text : world.exchange(pack(mine))) {
    for (const Json& item : Json::parse(text)) {
      add(all,
          {.check = item[0],
           .verdict = static_cast<Verdict>(item[1].get<int>()),
           .text = item[2],
           .hint = item[3]},
          rank);
    }
    ++rank;
  }
  return all;
}

void require_alike(std::vector<Finding>& findings, const std::vector<std::string>& checks) {
  for (const std::string& check : checks) {
    if (std::ranges::count(findings, check, &Finding::check) < 2) continue;
    for (Finding& finding : findings) {
      if (finding.check != check) continue;
      finding.verdict = Verdict::kFail;
      finding.hint = "ranks differ, and a training refuses that: start the same on all hosts";
    }
  }
}

std::string to_text(const Finding& finding, int num_ranks) {
  const auto padded = [](std::string word, std::size_t width) {
    word.resize(std::max(width, word.size()), ' ');
    return word;
  };
  std::string line = padded(name_of(finding.verdict), 6) + padded(finding.check, 16) + finding.text;
  const int count = static_cast<int>(finding.ranks.size());
  if (count < num_ranks) {
    line += (count == 1 ? " (rank " : " (ranks ") + rank_list(finding.ranks) + ")";
  }
  line += "\n";
  if (!finding.hint.empty()) line += "      hint: " + finding.hint + "\n";
  return line;
}

std::string to_json(const Finding& finding) {
  return Json{{"check", finding.check},
              {"verdict", name_of(finding.verdict)},
              {"text", finding.text},
              {"hint", finding.hint},
              {"ranks", finding.ranks}}
             .dump() +
         "\n";
}

}  // namespace trireme
