// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_error.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace trireme {
namespace {

struct Failure {
  std::string message;
  std::vector<int> ranks;
};

std::vector<Failure> distinct(const std::vector<std::string>& outcomes) {
  std::vector<Failure> failures;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].empty()) continue;
    const std::string message = outcomes[rank].substr(1);
    auto known = std::find_if(failures.begin(), failures.end(),
                              [&](const Failure& f) { return f.message == message; });
    if (known == failures.end()) known = failures.insert(failures.end(), Failure{message, {}});
    known->ranks.push_back(static_cast<int>(rank));
  }
  return failures;
}

}  // namespace

std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

void collectively(Communicator& communicator, const std::function<void()>& body) {
  std::string outcome;  // empty: fine; else one byte of exit code, then the message
  try {
    body();
  } catch (const Error& error) {
    outcome = std::string(1, static_cast<char>(error.code())) + error.what();
  } catch (const std::exception& error) {
    outcome = std::string(1, static_cast<char>(ExitCode::kInternal)) + error.what();
  }
  const std::vector<std::string> outcomes = communicator.exchange(outcome);
  const std::vector<Failure> failures = distinct(outcomes);
  if (failures.empty()) return;
  std::string text;
  for (const Failure& failure : failures) {
    if (!text.empty()) text += "\n";
    const bool everywhere = static_cast<int>(failure.ranks.size()) == communicator.size();
    if (!everywhere)
      text += (failure.ranks.size() == 1 ? "rank " : "ranks ") + rank_list(failure.ranks) + ": ";
    text += failure.message;
  }
  const auto first = static_cast<std::size_t>(failures.front().ranks.front());
  throw SharedError(static_cast<ExitCode>(outcomes[first].front()), text);
}

}  // namespace trireme
