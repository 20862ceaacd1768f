// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include "optim/rules.hpp"
#include "trireme/error.hpp"

namespace trireme {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config) {
  if (config.name == "sgd") return make_sgd(config);
  if (config.name == "adam") return make_adam(config);
  if (config.name == "adamw") return make_adamw(config);
  TRIREME_ASSERT(config.name == "muon", "no update rule is called '" + config.name + "'");
  return make_muon(config);
}

}  // namespace trireme
