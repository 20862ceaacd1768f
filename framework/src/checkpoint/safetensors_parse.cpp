// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "checkpoint/array_text.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
// The format allows 100 MB; this is room for a hundred thousand tensors.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20;
constexpr std::pair<std::string_view, std::size_t> kTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

// A name from the file for a message: in quotes, one line, printable, not too long.
std::string quoted(const std::string& name) {
  constexpr std::size_t kShown = 100;
  const std::string text = Json(name).dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

// What a parsed value does not tell any more: keys that came twice, and how deep it went. A pass of
// its own, since the parser's callbacks take quadratic time in the number of keys.
class StructureCheck : public nlohmann::json_sax<Json> {
 public:
  // Empty where the text was no JSON: the parser says more.
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override {
    keys_.emplace_back();
    return open();
  }
  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) return true;
    problem_ = "its header has " + trireme::quoted(key) + " twice";
    return false;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override { return open(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool open() {
    constexpr int kMaxDepth = 3;  // tensor, field, list
    if (++depth_ <= kMaxDepth) return true;
    problem_ = "its header is nested too deeply";
    return false;
  }

  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  int depth_ = 0;
  std::string problem_;
};

// Reads one header; each error names the file.
class Parser {
 public:
  explicit Parser(const std::string& where) : where_(where) {}

  SafetensorsHeader parse(std::string_view text, std::uint64_t data_begin,
                          std::uint64_t file_bytes) {
    const Json json = parse_json(text);
    SafetensorsHeader header;
    for (const auto& [name, value] : json.items()) {
      if (name == kSafetensorsMetadata) {
        header.metadata = metadata(value);
      } else {
        header.tensors.push_back(tensor(name, value, data_begin, file_bytes));
      }
    }
    require_whole(header.tensors, data_begin, file_bytes);
    return header;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(where_ + ": " + what);
  }

 private:
  Json parse_json(std::string_view text) const {
    if (!text.starts_with('{')) fail("its header does not start with '{'; expected safetensors");
    StructureCheck check;
    if (!Json::sax_parse(text, &check) && !check.problem().empty()) fail(check.problem());
    try {
      return Json::parse(text);
    } catch (const Json::parse_error& error) {
      fail("its header is no JSON: the error is at byte " + std::to_string(error.byte) + " of " +
           std::to_string(text.size()));
    } catch (const Json::exception&) {  // such as a number beyond all types
      fail("its header is no JSON that can be read");
    }
  }

  std::map<std::string, std::string> metadata(const Json& value) const {
    if (!value.is_object()) fail(std::string(kSafetensorsMetadata) + " is not an object");
    std::map<std::string, std::string> result;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        fail(std::string(kSafetensorsMetadata) + ": " + quoted(key) + " is not a text");
      result.emplace(key, text.get<std::string>());
    }
    return result;
  }

  SafetensorsTensor tensor(const std::string& name, const Json& value, std::uint64_t data_begin,
                           std::uint64_t file_bytes) const {
    const std::string what = "tensor " + quoted(name);
    if (!value.is_object()) fail(what + " is not an object");
    for (const auto& [key, unused] : value.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        fail(what + " has a field " + quoted(key) + "; expected dtype, shape and data_offsets");
    }
    const Json& dtype = member(value, "dtype", what);
    if (!dtype.is_string()) fail(what + ": dtype is not a text");
    const std::vector<std::uint64_t> shape = numbers(value, "shape", what);
    const std::vector<std::uint64_t> offsets = numbers(value, "data_offsets", what);
    const std::uint64_t data_bytes = file_bytes - data_begin;
    if (offsets.size() != 2) fail(what + ": data_offsets are not two numbers");
    if (offsets[0] > offsets[1] || offsets[1] > data_bytes) {
      fail(what + ": data_offsets " + std::to_string(offsets[0]) + " to " +
           std::to_string(offsets[1]) + " are not within the file's " + std::to_string(data_bytes) +
           " bytes of data");
    }
    SafetensorsTensor tensor{.name = name,
                             .dtype = dtype.get<std::string>(),
                             .shape = {shape.begin(), shape.end()},
                             .begin = data_begin + offsets[0],
                             .end = data_begin + offsets[1]};
    const std::optional<std::uint64_t> bytes = size_of(shape, element_bytes(tensor.dtype, what));
    if (bytes != offsets[1] - offsets[0]) {
      fail(what + ": " + array_text(tensor.dtype, tensor.shape) + " takes " +
           (bytes ? std::to_string(*bytes) : "more than 2^64") + " bytes, its data_offsets have " +
           std::to_string(offsets[1] - offsets[0]));
    }
    return tensor;
  }

  const Json& member(const Json& object, const char* key, const std::string& what) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(what + " has no " + key);
    return *found;
  }

  // Whole numbers from 0 to the largest of std::int64_t.
  std::vector<std::uint64_t> numbers(const Json& object, const char* key,
                                     const std::string& what) const {
    const Json& list = member(object, key, what);
    const auto fits = [](const Json& number) {
      return number.is_number_unsigned() &&
             number.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    };
    if (!list.is_array() || !std::ranges::all_of(list, fits))
      fail(what + ": " + key + " is not a list of whole numbers from 0 on");
    return list.get<std::vector<std::uint64_t>>();
  }

  std::size_t element_bytes(const std::string& dtype, const std::string& what) const {
    for (const auto& [name, bytes] : kTypes) {
      if (name == dtype) return bytes;
    }
    fail(what + " has dtype " + quoted(dtype) + ", which is not known here");
  }

  // Bytes of so many elements; nothing where that is 2^64 or more.
  static std::optional<std::uint64_t> size_of(const std::vector<std::uint64_t>& shape,
                                              std::size_t element_bytes) {
    if (std::ranges::find(shape, 0U) != shape.end()) return 0;
    std::uint64_t bytes = element_bytes;
    for (const std::uint64_t extent : shape) {
      if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
    }
    return bytes;
  }

  // One tensor after the other, from the first byte of data to the last.
  void require_whole(const std::vector<SafetensorsTensor>& tensors, std::uint64_t data_begin,
                     std::uint64_t file_bytes) const {
    std::vector<const SafetensorsTensor*> order;
    for (const SafetensorsTensor& tensor : tensors) order.push_back(&tensor);
    std::ranges::sort(order, {}, [](const SafetensorsTensor* tensor) {
      return std::pair(tensor->begin, tensor->end);
    });
    std::uint64_t at = data_begin;
    for (const SafetensorsTensor* tensor : order) {
      if (tensor->begin < at) {
        fail("tensor " + quoted(tensor->name) + " overlaps another: its data start at byte " +
             std::to_string(tensor->begin) + ", others go on to " + std::to_string(at));
      }
      if (tensor->begin > at) fail_gap(at, tensor->begin);
      at = tensor->end;
    }
    if (at != file_bytes) fail_gap(at, file_bytes);
  }

  [[noreturn]] void fail_gap(std::uint64_t from, std::uint64_t to) const {
    fail("bytes " + std::to_string(from) + " to " + std::to_string(to) +
         " belong to no tensor: the file is damaged, or its header is of another file");
  }

  const std::string& where_;
};

}  // namespace

std::uint64_t safetensors_data_begin(std::span<const std::byte> start, std::uint64_t file_bytes,
                                     const std::string& where) {
  const Parser parser(where);
  if (start.size() < kLengthBytes) {
    parser.fail("has " + std::to_string(start.size()) +
                " bytes; expected safetensors, which start with the 8 bytes of a length");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    parser.fail("is no safetensors file, or damaged: its first 8 bytes say that its header has " +
                std::to_string(length) + " bytes; at most " + std::to_string(kMaxHeaderBytes) +
                " are read");
  }
  if (kLengthBytes + length > file_bytes) {
    parser.fail("is cut off: it has " + std::to_string(file_bytes) +
                " bytes, and its header alone " + std::to_string(length) + " from byte 8 on");
  }
  return kLengthBytes + length;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> start, std::uint64_t file_bytes,
                                    const std::string& where) {
  const std::uint64_t data_begin = safetensors_data_begin(start, file_bytes, where);
  TRIREME_ASSERT(start.size() >= data_begin, "the whole header is there");
  const auto* text = reinterpret_cast<const char*>(start.data());
  return Parser(where).parse({text + kLengthBytes, data_begin - kLengthBytes}, data_begin,
                             file_bytes);
}

}  // namespace trireme
