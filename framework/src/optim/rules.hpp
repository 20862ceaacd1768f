// SPDX-License-Identifier: Apache-2.0
// The update rules behind make_optimizer. Settings are taken as checked by the configuration
// reader.
#pragma once

#include <memory>

#include "optim/optimizer.hpp"

namespace trireme {

// Stochastic gradient descent with momentum, Nesterov's where asked for, and coupled weight decay
// (decay * parameter is added to the gradient): torch.optim.SGD without dampening. Slot "momentum"
// where momentum > 0.
std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig& config);

// Adam (Kingma and Ba 2015) with coupled weight decay: torch.optim.Adam.
std::unique_ptr<Optimizer> make_adam(const OptimizerConfig& config);

// AdamW (Loshchilov and Hutter 2019): the decay acts on the parameter, scaled by the rate:
// torch.optim.AdamW.
std::unique_ptr<Optimizer> make_adamw(const OptimizerConfig& config);

// Muon (muon.cpp). A matrix rule: needs whole parameters of two or more dimensions.
std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config);

}  // namespace trireme
