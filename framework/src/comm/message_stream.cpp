// SPDX-License-Identifier: Apache-2.0
#include "comm/message_stream.hpp"

#include "trireme/error.hpp"

namespace trireme {

void MessageStream::send(const std::byte* data, std::size_t size_bytes) {
  TRIREME_ASSERT(has_room(), "a stream's window is full");
  Message& message = next();
  message.receive_bytes = -1;
  start_send(*route_, rank_, data, size_bytes, message.request);
}

void MessageStream::receive(std::byte* data, std::size_t size_bytes) {
  TRIREME_ASSERT(has_room(), "a stream's window is full");
  Message& message = next();
  message.receive_bytes = static_cast<int>(size_bytes);
  start_receive(*route_, rank_, data, size_bytes, message.request);
}

bool MessageStream::poll() {
  const std::size_t before = completed_;
  while (completed_ < started_) {
    Message& oldest = messages_[completed_ % kWindow];
    int done = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&oldest.request, &done, &status), "MPI_Test");
    if (done == 0) break;
    if (oldest.receive_bytes >= 0) check_length(status, rank_, oldest.receive_bytes);
    ++completed_;
  }
  return completed_ != before;
}

}  // namespace trireme
