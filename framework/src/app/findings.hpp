// SPDX-License-Identifier: Apache-2.0
// What `trainer doctor` finds: each rank for itself, told together.
#pragma once

#include <string>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

enum class Verdict { kOk, kWarn, kFail };

struct Finding {
  std::string check;  // "memlock"
  Verdict verdict = Verdict::kOk;
  std::string text;             // what is so
  std::string hint = {};        // what to do; empty where all is well
  std::vector<int> ranks = {};  // that found it; of gather_findings only
};

// Collective. The findings of all ranks on all ranks: equal ones are one, with its ranks; ordered
// as the ranks found them.
std::vector<Finding> gather_findings(Communicator& world, const std::vector<Finding>& mine);

// What ranks must have alike: where one of `checks` has several texts, each becomes a failure.
void require_alike(std::vector<Finding>& findings, const std::vector<std::string>& checks);

// "warn  memlock   64 KiB (ranks 0-3 of 8)\n      hint: ..." ; no ranks where all found it.
std::string to_text(const Finding& finding, int num_ranks);
std::string to_json(const Finding& finding);

}  // namespace trireme
