// SPDX-License-Identifier: Apache-2.0
#include "train/rank_report.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "base/activity.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Times = std::array<Activity::Times, kNumPhases>;

constexpr double kMsPerSecond = 1000;
// A rank is a straggler when it is late by more than this share of a step, and than this.
constexpr double kLateShare = 0.1;
constexpr double kLateMs = 5;

std::string pack(const Times& times, const std::string& host) {
  std::string text(sizeof(Times), '\0');
  std::memcpy(text.data(), times.data(), sizeof(Times));
  return text + host;
}

Times unpack(const std::string& text) {
  Times times;
  TRIREME_ASSERT(text.size() >= sizeof(Times), "a rank's times are cut off");
  std::memcpy(times.data(), text.data(), sizeof(Times));
  return times;
}

// [phase]: the longest wait of any rank.
std::array<double, kNumPhases> longest_waits(const std::vector<Times>& ranks) {
  std::array<double, kNumPhases> longest{};
  for (const Times& times : ranks) {
    for (std::size_t p = 0; p < kNumPhases; ++p) longest[p] = std::max(longest[p], times[p].waited);
  }
  return longest;
}

RankTimes rank_times(const Times& times, const std::array<double, kNumPhases>& longest,
                     double ms_a_step) {
  RankTimes rank;
  double most = 0;
  for (std::size_t p = 0; p < kNumPhases; ++p) {
    if (!kPhases[p].of_step) continue;
    const Activity::Times& spent = times[p];
    const double late = (longest[p] - spent.waited) * ms_a_step;
    rank.waited_ms += spent.waited * ms_a_step;
    rank.late_ms += late;
    (kPhases[p].phase == Phase::kInput ? rank.input_ms : rank.compute_ms) +=
        (spent.total - spent.waited) * ms_a_step;
    if (late <= most) continue;
    most = late;
    rank.late_at = kPhases[p].name;
  }
  return rank;
}

// The latest one, where it is later than the next by enough to matter.
int straggler_of(const std::vector<RankTimes>& ranks) {
  if (ranks.size() < 2) return -1;
  std::vector<std::size_t> order(ranks.size());
  for (std::size_t r = 0; r < order.size(); ++r) order[r] = r;
  std::partial_sort(
      order.begin(), order.begin() + 2, order.end(),
      [&](std::size_t a, std::size_t b) { return ranks[a].late_ms > ranks[b].late_ms; });
  const RankTimes& latest = ranks[order[0]];
  const double step_ms = latest.compute_ms + latest.input_ms + latest.waited_ms;
  const double alone_ms = latest.late_ms - ranks[order[1]].late_ms;
  return alone_ms > kLateMs && alone_ms > kLateShare * step_ms ? static_cast<int>(order[0]) : -1;
}

}  // namespace

RanksEvent report_ranks(const ReportedSteps& steps, const std::string& host,
                        Communicator& communicator) {
  RanksEvent event{.step = steps.step, .steps = steps.steps, .ranks = {}};
  Activity* const activity = activity_of_this_thread();
  if (activity == nullptr) return event;
  std::vector<Times> times;  // [rank]
  for (const std::string& text : communicator.exchange(pack(activity->take_times(), host))) {
    times.push_back(unpack(text));
    event.ranks.push_back({.host = text.substr(sizeof(Times)), .late_at = {}});
  }
  const auto longest = longest_waits(times);
  for (std::size_t r = 0; r < times.size(); ++r) {
    const std::string name = event.ranks[r].host;
    event.ranks[r] = rank_times(times[r], longest, kMsPerSecond / static_cast<double>(steps.steps));
    event.ranks[r].host = name;
  }
  event.straggler = straggler_of(event.ranks);
  return event;
}

}  // namespace trireme
