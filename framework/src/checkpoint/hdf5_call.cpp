// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hdf5_call.hpp"

#include <new>

#include "trireme/error.hpp"

namespace trireme {
namespace {

// Called by HDF5 once a level of its error stack, from the API inwards. No exception may pass
// through HDF5.
herr_t append_reason(unsigned /*level*/, const H5E_error2_t* error, void* text) noexcept {
  try {
    auto& reasons = *static_cast<std::string*>(text);
    if (error->desc == nullptr) return 0;
    if (!reasons.empty()) reasons += ": ";
    reasons += error->desc;
    return 0;
  } catch (const std::bad_alloc&) {
    return -1;  // the message stays shorter
  }
}

}  // namespace

std::mutex& hdf5_lock() {
  static std::mutex lock;
  return lock;
}

void throw_hdf5_error(std::string_view action, std::string_view name) {
  std::string reasons;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_reason, &reasons) < 0 || reasons.empty()) {
    reasons = "HDF5 gives no reason";
  }
  throw CheckpointError("cannot " + std::string(action) + " " + std::string(name) + ": " + reasons);
}

void Hdf5Id::finish(std::string_view name) {
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  hdf5_call("close", name, [&] { return close_(id); });
}

Hdf5Id::~Hdf5Id() {
  if (id_ < 0) return;
  const std::lock_guard lock(hdf5_lock());
  // Nothing is lost when this fails: a file that was written is closed by finish().
  static_cast<void>(close_(id_));
}

}  // namespace trireme
