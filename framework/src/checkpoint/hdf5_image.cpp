// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hdf5_image.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "checkpoint/hdf5_call.hpp"
#include "checkpoint/hdf5_types.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// `owner` tells the files apart: HDF5 takes two of one name for one file, though the name is never
// opened.
Hdf5Id create_in_memory(const void* owner) {
  // The memory grows by this much at a time.
  constexpr std::size_t kIncrement = std::size_t{8} << 20;
  const Hdf5Id access =
      hdf5_object("make", "access list", H5Pclose, [] { return H5Pcreate(H5P_FILE_ACCESS); });
  hdf5_call("set up", "memory file",
            [&] { return H5Pset_fapl_core(access.get(), kIncrement, /*backing_store=*/0); });
  const std::string name = "memory-" + std::to_string(reinterpret_cast<std::uintptr_t>(owner));
  return hdf5_object("make", "memory file", H5Fclose, [&] {
    return H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get());
  });
}

Hdf5Id links_with_groups() {
  Hdf5Id list =
      hdf5_object("make", "link list", H5Pclose, [] { return H5Pcreate(H5P_LINK_CREATE); });
  hdf5_call("set up", "groups", [&] { return H5Pset_create_intermediate_group(list.get(), 1); });
  hdf5_call("set up", "names", [&] { return H5Pset_char_encoding(list.get(), H5T_CSET_UTF8); });
  return list;
}

// Each dataset is written once, in full: filling it first would write it twice.
Hdf5Id unfilled_datasets() {
  Hdf5Id list =
      hdf5_object("make", "dataset list", H5Pclose, [] { return H5Pcreate(H5P_DATASET_CREATE); });
  hdf5_call("set up", "datasets",
            [&] { return H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER); });
  return list;
}

// HDF5 takes "a//b", "a/./b" and "/a/b" for "a/b": such a name would come back as another one.
void require_plain_name(const std::string& name) {
  const auto fail = [&](const std::string& why) {
    throw CheckpointError("array name '" + name + "' cannot be stored: " + why +
                          "; expected GROUP/NAME, such as parameters/fc.weight");
  };
  if (name.find('/') == std::string::npos) fail("it has no group");
  if (name.find('\0') != std::string::npos) fail("it has a zero byte");
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = std::string_view(name).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") fail("a part of it is empty, '.' or '..'");
    begin = end + 1;
  }
}

}  // namespace

struct Hdf5Image::State {
  Hdf5Id links = links_with_groups();
  Hdf5Id datasets = unfilled_datasets();
  Hdf5Id file = create_in_memory(this);
};

Hdf5Image::Hdf5Image(std::int64_t step) : state_(std::make_unique<State>()) {
  const auto add_number = [&](const char* name, std::int64_t value) {
    const Hdf5Id space =
        hdf5_object("make", "scalar", H5Sclose, [] { return H5Screate(H5S_SCALAR); });
    const Hdf5Id attribute = hdf5_object("make attribute", name, H5Aclose, [&] {
      return H5Acreate2(state_->file.get(), name, H5T_STD_I64LE, space.get(), H5P_DEFAULT,
                        H5P_DEFAULT);
    });
    hdf5_call("write attribute", name,
              [&] { return H5Awrite(attribute.get(), H5T_NATIVE_INT64, &value); });
  };
  add_number(kFormatAttribute, kCheckpointFormat);
  add_number(kStepAttribute, step);
}

Hdf5Image::~Hdf5Image() = default;

void Hdf5Image::add_array(const ArrayInfo& info, std::span<const std::byte> data) {
  require_plain_name(info.name);
  TRIREME_ASSERT(data.size() == info.size_bytes(),
                 info.name + " has " + std::to_string(data.size()) + " bytes, its shape " +
                     std::to_string(info.size_bytes()));
  std::vector<hsize_t> dims(info.shape.begin(), info.shape.end());
  const Hdf5Id space = hdf5_object("make shape of", info.name, H5Sclose, [&] {
    return dims.empty() ? H5Screate(H5S_SCALAR)
                        : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  });
  const Hdf5Id dataset = hdf5_object("store array", info.name, H5Dclose, [&] {
    return H5Dcreate2(state_->file.get(), info.name.c_str(), hdf5_type(info.dtype), space.get(),
                      state_->links.get(), state_->datasets.get(), H5P_DEFAULT);
  });
  if (data.empty()) return;
  hdf5_call("store array", info.name, [&] {
    return H5Dwrite(dataset.get(), hdf5_type(info.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                    data.data());
  });
}

void Hdf5Image::add_text(const std::string& name, const std::string& text) {
  TRIREME_ASSERT(!text.empty(), "text " + name + " is empty");
  const Hdf5Id type = hdf5_text_type(text.size());
  const Hdf5Id space =
      hdf5_object("make", "scalar", H5Sclose, [] { return H5Screate(H5S_SCALAR); });
  const Hdf5Id dataset = hdf5_object("store text", name, H5Dclose, [&] {
    return H5Dcreate2(state_->file.get(), name.c_str(), type.get(), space.get(),
                      state_->links.get(), state_->datasets.get(), H5P_DEFAULT);
  });
  hdf5_call("store text", name, [&] {
    return H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data());
  });
}

std::span<const std::byte> Hdf5Image::finish() {
  const hid_t file = state_->file.get();
  hdf5_call("finish", "memory file", [&] { return H5Fflush(file, H5F_SCOPE_GLOBAL); });
  // Without a buffer: the exact size.
  const ssize_t size =
      hdf5_call("measure", "memory file", [&] { return H5Fget_file_image(file, nullptr, 0); });
  void* handle = nullptr;
  hdf5_call("find", "memory file", [&] { return H5Fget_vfd_handle(file, H5P_DEFAULT, &handle); });
  // The core driver's handle is the address of its pointer to the memory.
  const auto* bytes = *static_cast<const std::byte* const*>(handle);
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  TRIREME_ASSERT(static_cast<std::size_t>(size) > kSignature.size() &&
                     std::memcmp(bytes, kSignature.data(), kSignature.size()) == 0,
                 "HDF5's memory file does not start with its signature");
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace trireme
