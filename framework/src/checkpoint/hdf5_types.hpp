// SPDX-License-Identifier: Apache-2.0
// What writer and reader of model.h5 must agree on.
#pragma once

#include <cstddef>
#include <optional>

#include "checkpoint/hdf5_call.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// An attribute of the root, a 64-bit integer; it doubles as the mark of a Trireme file.
inline constexpr const char* kFormatAttribute = "trireme_format";
// A dataset, a 64-bit integer; in format 1 an attribute of the root.
inline constexpr const char* kStepName = "step";
inline constexpr const char* kStateDataset = "state";

// The little-endian type in which dtype is stored; owned by HDF5.
hid_t hdf5_type(DType dtype);

// Which dtype this stored type is; nothing if Trireme has no such type.
std::optional<DType> dtype_of(const Hdf5Id& type);

// UTF-8 of exactly this many bytes, > 0.
Hdf5Id hdf5_text_type(std::size_t size_bytes);

}  // namespace trireme
