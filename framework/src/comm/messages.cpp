// SPDX-License-Identifier: Apache-2.0
#include "comm/messages.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "trireme/error.hpp"

namespace trireme {

namespace {

int comm_rank(const Route& route, int rank) {
  return (*route.members)[static_cast<std::size_t>(rank)];
}

}  // namespace

void start_send(const Route& route, int rank, const std::byte* data, std::size_t size_bytes,
                MPI_Request& request) {
  check_mpi(MPI_Isend(data, static_cast<int>(size_bytes), MPI_BYTE, comm_rank(route, rank),
                      route.tag, route.comm, &request),
            "MPI_Isend");
  *route.bytes_sent += size_bytes;
}

void start_receive(const Route& route, int rank, std::byte* data, std::size_t size_bytes,
                   MPI_Request& request) {
  check_mpi(MPI_Irecv(data, static_cast<int>(size_bytes), MPI_BYTE, comm_rank(route, rank),
                      route.tag, route.comm, &request),
            "MPI_Irecv");
}

void check_length(const MPI_Status& status, int rank, int expected_bytes) {
  int received = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  if (received == expected_bytes) return;
  throw CommError("rank " + std::to_string(rank) + " sent " + std::to_string(received) +
                  " bytes, expected " + std::to_string(expected_bytes) +
                  "; all ranks must call the same with the same count, dtype, offsets and root");
}

void Messages::send(int rank, const std::byte* data, std::size_t size_bytes) {
  for (std::size_t at = 0; at < size_bytes; at += route_.max_message_bytes) {
    start_send(route_, rank, data + at, std::min(route_.max_message_bytes, size_bytes - at),
               add(rank, -1));
  }
}

void Messages::receive(int rank, std::byte* data, std::size_t size_bytes) {
  for (std::size_t at = 0; at < size_bytes; at += route_.max_message_bytes) {
    const std::size_t length = std::min(route_.max_message_bytes, size_bytes - at);
    start_receive(route_, rank, data + at, length, add(rank, static_cast<int>(length)));
  }
}

void Messages::signal(int to, int from) {
  start_receive(route_, from, nullptr, 0, add(from, 0));
  start_send(route_, to, nullptr, 0, add(to, -1));
}

MPI_Request& Messages::add(int rank, int receive_bytes) {
  messages_.push_back({rank, receive_bytes});
  return requests_.emplace_back(MPI_REQUEST_NULL);
}

Messages::Progress Messages::poll() {
  if (requests_.empty()) return Progress::kAll;
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int num_completed = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(),
                                &num_completed, completed_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  if (num_completed == 0) return Progress::kNone;
  for (std::size_t i = 0; num_completed != MPI_UNDEFINED && i < std::size_t(num_completed); ++i) {
    // MPI sets the error of a status only where it returns MPI_ERR_IN_STATUS.
    if (code == MPI_ERR_IN_STATUS) check_mpi(statuses_[i].MPI_ERROR, "MPI_Testsome");
    const Message& message = messages_[static_cast<std::size_t>(completed_[i])];
    if (message.receive_bytes >= 0) check_length(statuses_[i], message.rank, message.receive_bytes);
  }
  const bool all = std::all_of(requests_.begin(), requests_.end(),
                               [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
  if (!all) return Progress::kSome;
  requests_.clear();
  messages_.clear();
  return Progress::kAll;
}

std::vector<int> Messages::pending_ranks() const {
  std::set<int> ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) ranks.insert(messages_[i].rank);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace trireme
