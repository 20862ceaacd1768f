// SPDX-License-Identifier: Apache-2.0
#include "models.hpp"
namespace trireme {
void add_models(Registry&) {}
}
