// SPDX-License-Identifier: Apache-2.0
#include "data/file_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "comm/local.hpp"
#include "comm/node_memory.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::size_t kFirstGrowth = std::size_t{1} << 20;  // bytes
constexpr std::size_t kMaxRead = std::size_t{1} << 30;      // zlib counts in unsigned int

[[noreturn]] void fail(const std::string& path, const std::string& what, const std::string& hint) {
  throw DataError(path + ": " + what + (hint.empty() ? "" : "; " + hint));
}

[[noreturn]] void fail_errno(const std::string& path, const std::string& what,
                             const std::string& hint) {
  const int error = errno;
  fail(path, "cannot " + what + ": " + std::generic_category().message(error), hint);
}

// An open file, closed at the end of its scope.
class Descriptor {
 public:
  Descriptor(const std::string& path, const std::string& hint)
      : fd_(::open(path.c_str(),
                   O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe would wait for a writer
    if (fd_ < 0) {
      fail_errno(path, "open", hint);
    }
  }
  ~Descriptor() { ::close(fd_); }  // opened for reading: nothing can be lost by its failure
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// A gzip file being decoded.
class GzipReader {
 public:
  explicit GzipReader(const GzipOptions& options) : options_(options) {
    struct stat status {};
    if (::stat(options.path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      fail(options.path, "is no regular file", options.hint);
    }
    file_ = ::gzopen(options.path.c_str(), "rbe");
    if (file_ == nullptr) {
      fail_errno(options.path, "open", options.hint);
    }
  }
  ~GzipReader() { ::gzclose_r(file_); }  // what it may report, read() has reported
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Fills `into` or ends at the end of the file: how much it read. At the end the checksum has been
  // compared.
  std::size_t read(std::span<std::byte> into) {
    std::size_t done = 0;
    while (done < into.size()) {
      const auto want = static_cast<unsigned>(std::min(into.size() - done, kMaxRead));
      const int got = ::gzread(file_, into.data() + done, want);
      if (got <= 0) {
        check(offset_ + done);
        break;
      }
      done += static_cast<std::size_t>(got);
    }
    offset_ += done;
    return done;
  }
  bool is_gzip() { return ::gzdirect(file_) == 0; }

 private:
  void check(std::size_t at) {
    int code = Z_OK;
    const char* text = ::gzerror(file_, &code);
    if (code != Z_OK && code != Z_STREAM_END) {
      const std::string what = code == Z_BUF_ERROR ? "the file ends too early" : text;
      fail(options_.path,
           "damaged gzip data after " + std::to_string(at) + " decoded bytes: " + what,
           options_.hint);
    }
  }

  const GzipOptions& options_;
  gzFile file_ = nullptr;
  std::size_t offset_ = 0;
};

void decode_into(NodeWriter& memory, const GzipOptions& options) {
  GzipReader reader(options);
  std::vector<std::byte> header(options.header_bytes);
  const std::size_t got = reader.read(header);
  if (!reader.is_gzip()) {
    fail(options.path, "this is no gzip file", options.hint);
  }
  if (got < header.size()) {
    fail(options.path,
         "it holds " + std::to_string(got) + " decoded bytes, less than its header of " +
             std::to_string(header.size()),
         options.hint);
  }
  const std::uint64_t expected = options.expected_bytes(header);
  std::size_t filled = 0;
  std::size_t capacity = 0;
  while (filled < expected) {
    capacity = std::min<std::uint64_t>(expected, std::max(kFirstGrowth, 2 * capacity));
    const std::span<std::byte> bytes = memory.resize(capacity);
    if (filled == 0) {
      filled = std::min(header.size(), capacity);
      std::copy_n(header.begin(), filled, bytes.begin());
    }
    const std::size_t more = reader.read(bytes.subspan(filled));
    filled += more;
    if (filled < capacity) {
      fail(options.path,
           "it holds " + std::to_string(filled) + " decoded bytes, expected " +
               std::to_string(expected) + " by its header",
           options.hint);
    }
  }
  std::byte surplus{};
  if (reader.read({&surplus, 1}) != 0) {
    fail(options.path,
         "it holds more than the " + std::to_string(expected) +
             " decoded bytes expected by its header",
         options.hint);
  }
}

}  // namespace

FileBytes map_file(const std::string& path, const std::string& hint) {
  const Descriptor file(path, hint);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    fail_errno(path, "examine", hint);
  }
  if (!S_ISREG(status.st_mode)) {
    fail(path, "this is no regular file", hint);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return {nullptr, {}};  // an empty mapping does not exist
  }
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    fail_errno(path, "map into memory", hint);
  }
  std::shared_ptr<const void> owner(data, [size](void* mapped) { ::munmap(mapped, size); });
  return {std::move(owner), {static_cast<const std::byte*>(data), size}};
}

FileBytes gunzip_file(const GzipOptions& options) {
  const auto fill = [&options](NodeWriter& memory) { decode_into(memory, options); };
  const std::unique_ptr<Communicator> alone =
      options.node == nullptr ? make_local_communicator() : nullptr;
  auto shared = share_on_node(options.node == nullptr ? *alone : *options.node, fill);
  const std::span<const std::byte> bytes = shared->bytes();
  return {std::move(shared), bytes};
}

}  // namespace trireme
