// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "trireme/communicator.hpp"

namespace trireme {

// Private memory as Communicator::allocate promises it: zeroed, aligned to 64 bytes, large sizes to
// pages, huge ones asked for from 2 MiB on. Throws Error (kInternal) where there is no more.
Buffer allocate_pages(std::size_t size_bytes);

}  // namespace trireme
