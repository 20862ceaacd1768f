// SPDX-License-Identifier: Apache-2.0
#include "trireme/communicator.hpp"

#include "comm/call.hpp"
#include "trireme/error.hpp"

namespace trireme {

namespace {

class CompleteOperation : public Operation {
 public:
  bool test() override { return true; }
  void wait() override {}
  void abandon() noexcept override {}
  std::chrono::steady_clock::time_point completed_at() const override { return completed_at_; }

 private:
  std::chrono::steady_clock::time_point completed_at_ = std::chrono::steady_clock::now();
};

}  // namespace

Request complete_now() { return Request(std::make_shared<CompleteOperation>()); }

Request Communicator::mark() { return complete_now(); }

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return 1;
    case DType::kF32:
      return 4;
    case DType::kI64:
    case DType::kF64:
      return 8;
  }
  TRIREME_ASSERT(false, "not a dtype");
  return 0;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "u8";
    case DType::kI64:
      return "i64";
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
  }
  TRIREME_ASSERT(false, "not a dtype");
  return {};
}

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    if (operation_) operation_->abandon();
    operation_ = std::move(other.operation_);
  }
  return *this;
}

Request::~Request() {
  if (operation_) operation_->abandon();
}

bool Request::test() { return !operation_ || operation_->test(); }

void Request::wait() {
  if (operation_) operation_->wait();
}

std::chrono::steady_clock::time_point Request::completed_at() const {
  return operation_ ? operation_->completed_at() : std::chrono::steady_clock::time_point{};
}

Buffer::Buffer(void* data, std::size_t size_bytes, Free free)
    : data_(data), size_bytes_(size_bytes), free_(std::move(free)) {}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    free_ = std::exchange(other.free_, nullptr);
  }
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
  if (free_) free_(data_, size_bytes_);
}

}  // namespace trireme
