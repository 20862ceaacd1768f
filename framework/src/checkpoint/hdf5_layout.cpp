// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hdf5_layout.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "checkpoint/hdf5_call.hpp"
#include "checkpoint/hdf5_types.hpp"
#include "checkpoint/manifest.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// What HDF5 keeps an array's name and place in, generously: a file that needs more has its head
// reach further, no more than that.
std::size_t metadata_bytes(const std::vector<ArrayInfo>& arrays) {
  std::size_t bytes = std::size_t{16} << 10;
  for (const ArrayInfo& info : arrays) bytes += 1024 + 8 * info.name.size();
  return bytes;
}

// The core driver's memory. HDF5 calls; no exception may pass through it.
void* resize_memory(void* /*memory*/, std::size_t size_bytes, H5FD_file_image_op_t /*why*/,
                    void* head) noexcept {
  try {
    auto& bytes = *static_cast<std::vector<std::byte>*>(head);
    bytes.resize(size_bytes);
    return bytes.data();
  } catch (const std::bad_alloc&) {
    return nullptr;  // HDF5 reports a failed write
  }
}
herr_t keep_memory(void* /*memory*/, H5FD_file_image_op_t /*why*/, void* /*head*/) noexcept {
  return 0;
}
void* same_owner(void* head) noexcept { return head; }
herr_t leave_owner(void* /*head*/) noexcept { return 0; }

// `head` gets the file's bytes, complete when the file is closed.
Hdf5Id create_in_memory(std::vector<std::byte>& head, std::size_t metadata_bytes) {
  constexpr std::size_t kIncrement = std::size_t{64} << 10;
  constexpr hsize_t kAlignment = 64;  // of arrays of at least as many bytes
  const Hdf5Id access =
      hdf5_object("make", "access list", H5Pclose, [] { return H5Pcreate(H5P_FILE_ACCESS); });
  H5FD_file_image_callbacks_t memory{.image_malloc = nullptr,
                                     .image_memcpy = nullptr,
                                     .image_realloc = resize_memory,
                                     .image_free = keep_memory,
                                     .udata_copy = same_owner,
                                     .udata_free = leave_owner,
                                     .udata = &head};
  hdf5_call("set up", "memory file",
            [&] { return H5Pset_file_image_callbacks(access.get(), &memory); });
  hdf5_call("set up", "memory file",
            [&] { return H5Pset_fapl_core(access.get(), kIncrement, /*backing_store=*/0); });
  hdf5_call("set up", "memory file",
            [&] { return H5Pset_meta_block_size(access.get(), metadata_bytes); });
  hdf5_call("set up", "memory file",
            [&] { return H5Pset_alignment(access.get(), kAlignment, kAlignment); });
  // HDF5 takes two files of one name for one file, though the name is never opened.
  const std::string name = "memory-" + std::to_string(reinterpret_cast<std::uintptr_t>(&head));
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

// Their place is taken at once, and nothing is written there.
Hdf5Id placed_datasets() {
  Hdf5Id list =
      hdf5_object("make", "dataset list", H5Pclose, [] { return H5Pcreate(H5P_DATASET_CREATE); });
  hdf5_call("set up", "datasets",
            [&] { return H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY); });
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

Hdf5Id scalar() {
  return hdf5_object("make", "scalar", H5Sclose, [] { return H5Screate(H5S_SCALAR); });
}

class Placer {
 public:
  explicit Placer(const Hdf5Id& file) : file_(file) {}

  // Where the dataset's bytes begin; 0 where it has none.
  std::size_t place(const std::string& name, hid_t type, const Hdf5Id& space,
                    std::size_t size_bytes) const {
    const Hdf5Id dataset = hdf5_object("store array", name, H5Dclose, [&] {
      return H5Dcreate2(file_.get(), name.c_str(), type, space.get(), links_.get(), datasets_.get(),
                        H5P_DEFAULT);
    });
    if (size_bytes == 0) return 0;
    return hdf5_call("place array", name, [&] {
      const haddr_t offset = H5Dget_offset(dataset.get());
      return offset == HADDR_UNDEF ? hssize_t{-1} : static_cast<hssize_t>(offset);
    });
  }

  std::size_t place(const ArrayInfo& info) const {
    require_plain_name(info.name);
    const std::vector<hsize_t> dims(info.shape.begin(), info.shape.end());
    const Hdf5Id space = hdf5_object("make shape of", info.name, H5Sclose, [&] {
      return dims.empty() ? H5Screate(H5S_SCALAR)
                          : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
    });
    return place(info.name, hdf5_type(info.dtype), space, info.size_bytes());
  }

 private:
  const Hdf5Id& file_;
  const Hdf5Id links_ = links_with_groups();
  const Hdf5Id datasets_ = placed_datasets();
};

void add_format(const Hdf5Id& file) {
  const Hdf5Id space = scalar();
  const Hdf5Id attribute = hdf5_object("make attribute", kFormatAttribute, H5Aclose, [&] {
    return H5Acreate2(file.get(), kFormatAttribute, H5T_STD_I64LE, space.get(), H5P_DEFAULT,
                      H5P_DEFAULT);
  });
  hdf5_call("write attribute", kFormatAttribute,
            [&] { return H5Awrite(attribute.get(), H5T_NATIVE_INT64, &kCheckpointFormat); });
}

}  // namespace

FileLayout lay_out_file(const std::vector<ArrayInfo>& arrays, std::size_t state_bytes) {
  FileLayout layout;
  Hdf5Id file = create_in_memory(layout.head, metadata_bytes(arrays));
  add_format(file);
  const Placer placer(file);
  const Hdf5Id space = scalar();
  layout.step_offset = placer.place(kStepName, hdf5_type(DType::kI64), space, size_of(DType::kI64));
  layout.state_offset =
      placer.place(kStateDataset, hdf5_text_type(state_bytes).get(), space, state_bytes);
  for (const ArrayInfo& info : arrays) layout.offsets.push_back(placer.place(info));
  hsize_t size = 0;
  hdf5_call("measure", "memory file", [&] { return H5Fget_filesize(file.get(), &size); });
  layout.size_bytes = size;
  file.finish("memory file");  // which completes the head
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  TRIREME_ASSERT(layout.head.size() > kSignature.size() &&
                     std::memcmp(layout.head.data(), kSignature.data(), kSignature.size()) == 0,
                 "HDF5's memory file does not start with its signature");
  layout.head.resize(std::min(layout.head.size(), layout.size_bytes));
  return layout;
}

}  // namespace trireme
