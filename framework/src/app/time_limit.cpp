// SPDX-License-Identifier: Apache-2.0
#include "app/time_limit.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"
#include "comm/shared_error.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Seconds = std::chrono::duration<double>;

// Slurm gives jobs without a limit a number near 2^32.
constexpr std::int64_t kNoEnd = 4'000'000'000;

std::optional<Seconds> time_to(const char* job_end, std::chrono::system_clock::time_point today) {
  if (job_end == nullptr) return std::nullopt;
  const std::string_view text = job_end;
  std::int64_t end = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), end);
  if (error != std::errc() || stop != text.data() + text.size() || end < 0) {
    throw ConfigError("SLURM_JOB_END_TIME: '" + std::string(text) +
                      "' is no time; expected seconds since 1970; unset it");
  }
  if (end >= kNoEnd) return std::nullopt;
  return Seconds(static_cast<double>(end)) - Seconds(today.time_since_epoch());
}

std::string rounded(Seconds time) {
  return plural(static_cast<std::int64_t>(std::floor(time.count())), "second");
}

}  // namespace

TimeLimit::TimeLimit(const RunConfig& config, const Now& now) {
  std::optional<Seconds> left = time_to(now.job_end, now.today);
  const char* end = "the job ends (SLURM_JOB_END_TIME)";
  if (const Seconds limit(config.time_limit); config.time_limit > 0 && (!left || limit < *left)) {
    left = limit;
    end = "run.time_limit is over";
  }
  if (!left) return;
  const Seconds margin(config.time_margin);
  if (*left <= margin) {
    throw ConfigError("run.time_margin: it is " + rounded(*left) + " until " + end +
                      ", and the run is to stop " + rounded(margin) +
                      " before: nothing could be trained; give the job more time, or the run a "
                      "smaller run.time_margin");
  }
  const Seconds to_train = *left - margin;
  stop_ = now.start + std::chrono::duration_cast<Clock::duration>(to_train);
  text_ = "stops by itself in " + rounded(to_train) + ", " + rounded(margin) + " before " + end;
}

TimeLimit limit_of_rank_0(const RunConfig& config, Communicator& world) {
  TimeLimit limit;
  collectively(world, [&] {
    if (world.rank() != 0) return;
    limit = TimeLimit(config, {.start = TimeLimit::Clock::now(),
                               .today = std::chrono::system_clock::now(),
                               .job_end = std::getenv("SLURM_JOB_END_TIME")});
  });
  return limit;
}

}  // namespace trireme
