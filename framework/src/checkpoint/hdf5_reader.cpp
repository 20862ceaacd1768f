// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hdf5_reader.hpp"

#include <algorithm>
#include <new>

#include "checkpoint/hdf5_types.hpp"
#include "checkpoint/manifest.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

Hdf5Id open_read_only(const std::string& path) {
  const Hdf5Id access =
      hdf5_object("make", "access list", H5Pclose, [] { return H5Pcreate(H5P_FILE_ACCESS); });
  // A committed checkpoint never changes; and locks fail on some parallel file systems.
  hdf5_call("set up", path, [&] { return H5Pset_file_locking(access.get(), false, true); });
  return hdf5_object("open HDF5 file", path, H5Fclose,
                     [&] { return H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()); });
}

// Bytes in the file; HDF5 returns 0 for an error too, which no caller takes for a size that fits.
std::size_t storage_size(const Hdf5Id& dataset, const std::string& where) {
  return static_cast<std::size_t>(hdf5_call(
      "measure", where, [&] { return static_cast<hssize_t>(H5Dget_storage_size(dataset.get())); }));
}

struct Links {
  std::vector<std::string> names;
  bool all_hard = true;
};

// Called by HDF5 once a link. No exception may pass through HDF5.
herr_t append_link(hid_t /*group*/, const char* name, const H5L_info_t* info,
                   void* links) noexcept {
  try {
    auto& found = *static_cast<Links*>(links);
    found.names.emplace_back(name);
    found.all_hard = found.all_hard && info->type == H5L_TYPE_HARD;
    return 0;
  } catch (const std::bad_alloc&) {
    return -1;  // reported as a failed listing
  }
}

}  // namespace

Hdf5Reader::Hdf5Reader(const std::filesystem::path& path)
    : path_(path.string()), file_(open_read_only(path_)) {
  const htri_t marked = hdf5_call("look for the format mark in", path_, [&] {
    return H5Aexists_by_name(file_.get(), "/", kFormatAttribute, H5P_DEFAULT);
  });
  if (marked == 0) {
    throw CheckpointError(path_ + " is an HDF5 file, but not one of Trireme: it has no attribute " +
                          kFormatAttribute);
  }
  format_ = read_attribute(kFormatAttribute);
  if (format_ > kCheckpointFormat) {
    throw CheckpointError(path_ + ": format " + std::to_string(format_) +
                          " was written by a newer Trireme; this one reads up to format " +
                          std::to_string(kCheckpointFormat));
  }
  step_ = format_ == 1 ? read_attribute(kStepName) : read_step();
  state_ = read_state();
  collect("", 0);
  std::ranges::sort(arrays_, {}, &ArrayInfo::name);
}

std::int64_t Hdf5Reader::read_attribute(const char* attribute) const {
  const std::string where = path_ + " attribute " + attribute;
  const Hdf5Id id = hdf5_object("open", where, H5Aclose,
                                [&] { return H5Aopen(file_.get(), attribute, H5P_DEFAULT); });
  const Hdf5Id space =
      hdf5_object("inspect", where, H5Sclose, [&] { return H5Aget_space(id.get()); });
  const hssize_t count =
      hdf5_call("inspect", where, [&] { return H5Sget_simple_extent_npoints(space.get()); });
  if (count != 1) throw CheckpointError(where + " is not one number");
  std::int64_t value = 0;
  hdf5_call("read", where, [&] { return H5Aread(id.get(), H5T_NATIVE_INT64, &value); });
  return value;
}

std::int64_t Hdf5Reader::read_step() const {
  const Hdf5Id dataset = hdf5_object("open", path_ + " dataset " + kStepName, H5Dclose,
                                     [&] { return H5Dopen2(file_.get(), kStepName, H5P_DEFAULT); });
  const ArrayInfo info = describe(dataset, kStepName);
  if (info.dtype != DType::kI64 || !info.shape.empty()) {
    throw CheckpointError(path_ + " dataset " + kStepName + " is not one 64-bit integer");
  }
  std::int64_t step = 0;
  read(info, std::as_writable_bytes(std::span(&step, 1)));
  return step;
}

std::string Hdf5Reader::read_state() const {
  const std::string where = path_ + " dataset " + kStateDataset;
  const Hdf5Id dataset = hdf5_object(
      "open", where, H5Dclose, [&] { return H5Dopen2(file_.get(), kStateDataset, H5P_DEFAULT); });
  const Hdf5Id type =
      hdf5_object("inspect", where, H5Tclose, [&] { return H5Dget_type(dataset.get()); });
  const auto size = static_cast<std::size_t>(
      hdf5_call("inspect", where, [&] { return static_cast<hssize_t>(H5Tget_size(type.get())); }));
  const Hdf5Id expected = hdf5_text_type(size);
  const htri_t is_text =
      hdf5_call("inspect", where, [&] { return H5Tequal(type.get(), expected.get()); });
  if (is_text == 0 || storage_size(dataset, where) != size) {
    throw CheckpointError(where + " is not a single UTF-8 text of fixed length");
  }
  std::string text(size, '\0');
  hdf5_call("read", where, [&] {
    return H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data());
  });
  return text.substr(0, text.find('\0'));  // the rest is room
}

void Hdf5Reader::collect(const std::string& group, int depth) {
  // Deeper than any name of ours; a foreign file may hold a group that contains itself.
  constexpr int kMaxDepth = 32;
  const std::string where = path_ + " group /" + group;
  if (depth > kMaxDepth) throw CheckpointError(where + " is nested too deeply");
  const Hdf5Id id = hdf5_object("open", where, H5Gclose, [&] {
    return H5Gopen2(file_.get(), ("/" + group).c_str(), H5P_DEFAULT);
  });
  Links links;
  hdf5_call("list", where, [&] {
    return H5Literate(id.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, append_link, &links);
  });
  if (!links.all_hard) throw CheckpointError(where + " holds a link; expected arrays and groups");
  for (const std::string& name : links.names) {
    std::string full = group;
    if (!full.empty()) full += '/';
    full += name;
    if (full == kStateDataset || full == kStepName) continue;
    const Hdf5Id object = hdf5_object("open", path_ + " object " + full, H5Oclose,
                                      [&] { return H5Oopen(id.get(), name.c_str(), H5P_DEFAULT); });
    const H5I_type_t kind = hdf5_call("inspect", full, [&] { return H5Iget_type(object.get()); });
    if (kind == H5I_GROUP) {
      collect(full, depth + 1);
    } else if (kind == H5I_DATASET) {
      arrays_.push_back(describe(object, full));
    } else {
      throw CheckpointError(path_ + " object " + full + " is neither an array nor a group");
    }
  }
}

ArrayInfo Hdf5Reader::describe(const Hdf5Id& dataset, const std::string& name) const {
  const std::string where = path_ + " array " + name;
  const Hdf5Id type =
      hdf5_object("inspect", where, H5Tclose, [&] { return H5Dget_type(dataset.get()); });
  const std::optional<DType> dtype = dtype_of(type);
  if (!dtype) throw CheckpointError(where + " has a type other than u8, i64, f32 and f64");
  const Hdf5Id space =
      hdf5_object("inspect", where, H5Sclose, [&] { return H5Dget_space(dataset.get()); });
  const int rank =
      hdf5_call("inspect", where, [&] { return H5Sget_simple_extent_ndims(space.get()); });
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  hdf5_call("inspect", where,
            [&] { return H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr); });
  const Hdf5Id layout =
      hdf5_object("inspect", where, H5Pclose, [&] { return H5Dget_create_plist(dataset.get()); });
  const bool contiguous =
      hdf5_call("inspect", where, [&] { return H5Pget_layout(layout.get()); }) == H5D_CONTIGUOUS;
  const int externals =
      hdf5_call("inspect", where, [&] { return H5Pget_external_count(layout.get()); });
  ArrayInfo info{name, *dtype, {dims.begin(), dims.end()}};
  // The last one bounds what a reader allocates by what the file holds.
  if (!contiguous || externals != 0 || storage_size(dataset, where) != info.size_bytes()) {
    throw CheckpointError(where + " is not stored as one whole block in this file");
  }
  return info;
}

void Hdf5Reader::read(const ArrayInfo& info, std::span<std::byte> data) const {
  const std::string where = path_ + " array " + info.name;
  TRIREME_ASSERT(data.size() == info.size_bytes(),
                 where + ": the buffer has " + std::to_string(data.size()) + " bytes, the array " +
                     std::to_string(info.size_bytes()));
  if (data.empty()) return;
  const Hdf5Id dataset = hdf5_object("open", where, H5Dclose, [&] {
    return H5Dopen2(file_.get(), info.name.c_str(), H5P_DEFAULT);
  });
  hdf5_call("read", where, [&] {
    return H5Dread(dataset.get(), hdf5_type(info.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                   data.data());
  });
}

}  // namespace trireme
