// SPDX-License-Identifier: Apache-2.0
#include "app/failure.hpp"

#include <c10/util/Exception.h>

#include <iostream>

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

}  // namespace trireme
