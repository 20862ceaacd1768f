// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/archive.hpp"
#include "checkpoint/output_file.hpp"

namespace trireme {

// Writes, all but the commit, what torch.save({NAME: tensor, ...}) writes and
// torch.load(weights_only=True) accepts: a zip archive with data.pkl, a pickle of the dict, and
// each tensor's bytes as data/N. On the CPU, row-major, no gradient wanted. Keys are in the order
// of `arrays`; read is called once an array, in that order. Throws CheckpointError.
void write_torch_file(OutputFile& file, const std::vector<ArrayInfo>& arrays,
                      const std::function<void(const ArrayInfo&, std::span<std::byte>)>& read);

// data.pkl.
std::string pickle_state_dict(const std::vector<ArrayInfo>& arrays);

}  // namespace trireme
