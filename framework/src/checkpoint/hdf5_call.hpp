// SPDX-License-Identifier: Apache-2.0
// The one way into HDF5: every call is checked, serialised and owned.
//
// Note [HDF5 calls]
// HDF5 as distributions build it is not thread-safe, and a checkpoint is written behind the
// training while another thread may read one. As in HDF5's own thread-safe build, one process-wide
// lock is held during each call; the state that it guards is the library's.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

std::mutex& hdf5_lock();

// With the lock held, after a failed call: throws CheckpointError "cannot ACTION NAME: HDF5's
// reasons".
[[noreturn]] void throw_hdf5_error(std::string_view action, std::string_view name);

// call() is one HDF5 call that returns a negative value on failure. The result is handed back.
template <typename Call>
auto hdf5_call(std::string_view action, std::string_view name, Call call) {
  const std::lock_guard lock(hdf5_lock());
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors go into messages, not to stderr
  const auto result = call();
  if (result < 0) throw_hdf5_error(action, name);
  return result;
}

// Owns one HDF5 object and knows how to close it.
class Hdf5Id {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Id(hid_t id, Close close) : id_(id), close_(close) {}
  Hdf5Id(Hdf5Id&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hdf5Id& operator=(Hdf5Id&&) = delete;
  ~Hdf5Id();

  hid_t get() const { return id_; }
  // Closes a file that was written: what is lost is told. Throws CheckpointError.
  void finish(std::string_view name);

 private:
  hid_t id_;
  Close close_;
};

// hdf5_call for calls that make an object.
template <typename Call>
Hdf5Id hdf5_object(std::string_view action, std::string_view name, Hdf5Id::Close close, Call call) {
  return {hdf5_call(action, name, call), close};
}

}  // namespace trireme
