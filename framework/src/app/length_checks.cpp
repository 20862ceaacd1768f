// SPDX-License-Identifier: Apache-2.0
#include "app/length_checks.hpp"

#include <algorithm>

#include "app/sinks.hpp"
#include "base/text.hpp"
#include "comm/shared_error.hpp"
#include "trireme/error.hpp"

namespace trireme {

void require_effect(const Config& config, const RunLength& length) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.compression != "powersgd" || parallel.powersgd_start < length.total_steps) return;
  throw ConfigError("parallel.powersgd_start: " + std::to_string(parallel.powersgd_start) +
                    " has no effect: the run has " + plural(length.total_steps, "step") +
                    ", counted from 0; expected less, or parallel.compression: none");
}

std::string warning_of_rare_averages(const Config& config, const RunLength& length) {
  const std::int64_t every = config.parallel.sync_every;
  if (every <= std::min(length.steps_per_epoch, length.total_steps)) return {};
  const bool whole = every > length.total_steps;
  return "parallel.sync_every " + std::to_string(every) + " is more than the " +
         (whole ? plural(length.total_steps, "step") + " of the run"
                : plural(length.steps_per_epoch, "step") + " of an epoch") +
         ": nodes are averaged " + (whole ? "" : "that rarely, and ") + "after the last step" +
         (whole ? " only" : "") + "; evaluations and checkpoints wait for an average";
}

std::string warning_of_no_checkpoint(const Config& config, const RunLength& length,
                                     bool validated) {
  constexpr std::int64_t kSoonRepeated = 1000;
  if (length.total_steps < kSoonRepeated) return {};
  const double last = static_cast<double>(length.total_steps);
  const double evaluated =
      config.train.eval_every_epochs * static_cast<double>(length.steps_per_epoch);
  const std::int64_t saved = config.checkpoint.every_steps;
  if (saved > 0 && saved < length.total_steps) return {};
  if (validated && evaluated > 0 && evaluated < last) return {};
  return "nothing is saved before the last of " + plural(length.total_steps, "step") +
         ": a kill loses the whole run; set checkpoint.every_steps";
}

void check_length(const Session& session, Communicator& world, bool apart) {
  const Config& config = session.config();
  RunLength length;
  collectively(world, [&] {
    length = run_length(config, session.data().train->size());
    require_effect(config, length);
  });
  const std::string rare = apart ? warning_of_rare_averages(config, length) : "";
  const std::string unsaved =
      warning_of_no_checkpoint(config, length, session.data().validation != nullptr);
  for (const std::string& warning : {rare, unsaved}) {
    if (!warning.empty() && world.rank() == 0) warn(warning);
  }
}

}  // namespace trireme
