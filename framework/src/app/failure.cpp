// SPDX-License-Identifier: Apache-2.0
#include "app/failure.hpp"

#include <c10/util/Exception.h>

#include <chrono>
#include <iostream>
#include <thread>

namespace trireme {

Failure failure_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return {ours->what(), ours->code()};
  if (const auto* torchs = dynamic_cast<const c10::Error*>(&error))
    return {torchs->what_without_backtrace()};
  return {error.what()};
}

void print_error(const std::string& message, Launch* launch) {
  std::string where;
  if (launch != nullptr && launch->world().size() > 1) {
    where = " on rank " + std::to_string(launch->world().rank()) + " (" + launch->host() + ")";
  }
  std::cerr << "trireme: error" + where + ": " + message + "\n" << std::flush;
}

std::string tell_failure(const Failure& failure, Launch& launch) {
  // Most often another rank's error, which it is better to hear of; and rank 0 has the log.
  constexpr std::chrono::seconds kAfterRank0{1};
  // Long enough to be ended by the launcher: mpirun 4.1 may crash when a second rank aborts while
  // it ends the job for the first.
  constexpr std::chrono::seconds kAfterOthers{10};
  const bool consequence = failure.code == ExitCode::kCommunication;
  Watchdog* const watchdog = launch.watchdog();
  if (watchdog == nullptr) {
    print_error(failure.message, &launch);
    return failure.message;
  }
  const std::string culprits = consequence ? watchdog->describe_culprits() : std::string();
  if (consequence && launch.world().rank() > 0) std::this_thread::sleep_for(kAfterRank0);
  if (watchdog->may_say(failure.message, consequence)) {
    print_error(failure.message + culprits, &launch);
  } else if (consequence) {
    std::this_thread::sleep_for(kAfterOthers);
  }
  return failure.message + culprits;
}

}  // namespace trireme
