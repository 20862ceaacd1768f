// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hdf5_types.hpp"

#include "trireme/error.hpp"

namespace trireme {

hid_t hdf5_type(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return H5T_STD_U8LE;
    case DType::kI64:
      return H5T_STD_I64LE;
    case DType::kF32:
      return H5T_IEEE_F32LE;
    case DType::kF64:
      return H5T_IEEE_F64LE;
  }
  throw InternalError("unknown dtype");
}

std::optional<DType> dtype_of(const Hdf5Id& type) {
  for (const DType dtype : {DType::kU8, DType::kI64, DType::kF32, DType::kF64}) {
    const htri_t equal =
        hdf5_call("compare", "types", [&] { return H5Tequal(type.get(), hdf5_type(dtype)); });
    if (equal > 0) return dtype;
  }
  return std::nullopt;
}

Hdf5Id hdf5_text_type(std::size_t size_bytes) {
  Hdf5Id type = hdf5_object("make", "text type", H5Tclose, [] { return H5Tcopy(H5T_C_S1); });
  hdf5_call("make", "text type", [&] { return H5Tset_size(type.get(), size_bytes); });
  hdf5_call("make", "text type", [&] { return H5Tset_strpad(type.get(), H5T_STR_NULLPAD); });
  hdf5_call("make", "text type", [&] { return H5Tset_cset(type.get(), H5T_CSET_UTF8); });
  return type;
}

}  // namespace trireme
