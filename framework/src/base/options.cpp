// SPDX-License-Identifier: Apache-2.0
#include "trireme/options.hpp"

namespace trireme {

Options default_options(const std::vector<OptionSpec>& specs) {
  Options options;
  for (const OptionSpec& spec : specs) options.set(spec.name, spec.default_value);
  return options;
}

}  // namespace trireme
