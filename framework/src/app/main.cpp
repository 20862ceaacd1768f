// SPDX-License-Identifier: Apache-2.0
#include "models.hpp"
#include "trireme/app.hpp"

int main(int argc, char** argv) {
  trireme::Registry registry = trireme::builtin();
  trireme::add_models(registry);
  return trireme::run(argc, argv, registry);
}
