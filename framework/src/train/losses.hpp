// SPDX-License-Identifier: Apache-2.0
// Trireme's own losses and metrics.
#pragma once

#include "trireme/registry.hpp"

namespace trireme {

// cross_entropy: output (terms, classes), target int64 of any shape with as many terms; option
// label_smoothing. mse: squared difference; output and target of equally many terms. Outputs that
// do not fit the targets are a ConfigError: model and data set do not belong together.
void add_losses(Registry& registry);

// accuracy: share of terms whose largest output is the target's class; ties go to the lowest class.
// mean_absolute_error: of real targets; smaller is better.
void add_metrics(Registry& registry);

}  // namespace trireme
