// SPDX-License-Identifier: Apache-2.0
#include "app/torch_file.hpp"

#include <caffe2/serialize/inline_container.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <string_view>

#include "trireme/error.hpp"

namespace trireme {
namespace {

// Pickle, protocol 2 (Python's Lib/pickletools.py says what each opcode does), as far as a dict of
// tensors needs it. LibTorch's own pickler marks dicts with a type that only TorchScript reads.
class Pickle {
 public:
  Pickle() { code("\x80\x02"); }  // PROTO 2

  void code(std::string_view opcodes) { bytes_ += opcodes; }
  // BINUNICODE
  void text(std::string_view text) {
    code("X");
    little_endian(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  // BININT, or LONG1 of 8 bytes
  void number(std::int64_t value) {
    if (value >= std::numeric_limits<std::int32_t>::min() &&
        value <= std::numeric_limits<std::int32_t>::max()) {
      code("J");
      little_endian(static_cast<std::int32_t>(value));
    } else {
      code("\x8a\x08");
      little_endian(value);
    }
  }
  void numbers(const std::vector<std::int64_t>& values) {
    code("(");  // MARK
    for (const std::int64_t value : values) number(value);
    code("t");  // TUPLE
  }
  // GLOBAL
  void global(std::string_view module, std::string_view name) {
    code("c");
    bytes_.append(module).append("\n").append(name).append("\n");
  }
  std::string end() && {
    code(".");  // STOP
    return std::move(bytes_);
  }

 private:
  template <class T>
  void little_endian(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }

  std::string bytes_;
};

std::string_view storage_class(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "ByteStorage";
    case DType::kI64:
      return "LongStorage";
    case DType::kF32:
      return "FloatStorage";
    case DType::kF64:
      return "DoubleStorage";
  }
  TRIREME_ASSERT(false, "unknown type");
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i > 1; --i)
    strides[i - 2] = strides[i - 1] * std::max<std::int64_t>(shape[i - 1], 1);
  return strides;
}

std::string key_of(std::size_t index) { return std::to_string(index); }

// torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()), where storage
// is
// ("storage", torch.FloatStorage, "0", "cpu", elements)
void push_tensor(Pickle& pickle, const ArrayInfo& info, std::size_t index) {
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.code("((");  // MARK MARK
  pickle.text("storage");
  pickle.global("torch", storage_class(info.dtype));
  pickle.text(key_of(index));
  pickle.text("cpu");
  pickle.number(static_cast<std::int64_t>(info.size_bytes() / size_of(info.dtype)));
  pickle.code("tQ");  // TUPLE BINPERSID
  pickle.number(0);
  pickle.numbers(info.shape);
  pickle.numbers(row_major_strides(info.shape));
  pickle.code("\x89");  // NEWFALSE
  pickle.global("collections", "OrderedDict");
  pickle.code(")RtR");  // EMPTY_TUPLE REDUCE TUPLE REDUCE
}

}  // namespace

std::string pickle_state_dict(const std::vector<ArrayInfo>& arrays) {
  Pickle pickle;
  pickle.code("}(");  // EMPTY_DICT MARK
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    pickle.text(arrays[i].name);
    push_tensor(pickle, arrays[i], i);
  }
  pickle.code("u");  // SETITEMS
  return std::move(pickle).end();
}

void write_torch_file(OutputFile& file, const std::vector<ArrayInfo>& arrays,
                      const std::function<void(const ArrayInfo&, std::span<std::byte>)>& read) {
  // The writer is C within, through which no exception may pass, and its destructor writes the end
  // of the archive. So it believes that all is well after an error, which is thrown here.
  std::exception_ptr error;
  const auto write = [&](const void* data, std::size_t size) {
    try {
      if (!error) file.write({static_cast<const std::byte*>(data), size});
    } catch (const CheckpointError&) {
      error = std::current_exception();
    }
    return size;
  };
  {
    caffe2::serialize::PyTorchStreamWriter archive(write);
    const std::string pickle = pickle_state_dict(arrays);
    archive.writeRecord("data.pkl", pickle.data(), pickle.size());
    archive.writeRecord("byteorder", "little", 6);
    std::vector<std::byte> data;
    for (std::size_t i = 0; i < arrays.size() && !error; ++i) {
      data.resize(std::max<std::size_t>(arrays[i].size_bytes(), 1));
      const std::span<std::byte> bytes = std::span(data).first(arrays[i].size_bytes());
      read(arrays[i], bytes);
      archive.writeRecord("data/" + key_of(i), data.data(), bytes.size());
    }
    archive.writeEndOfFile();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace trireme
