// SPDX-License-Identifier: Apache-2.0
#include "comm/messages.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "trireme/error.hpp"

namespace trireme {

void Messages::send(int rank, const std::byte* data, std::size_t size_bytes) {
  for (std::size_t at = 0; at < size_bytes; at += route_.max_message_bytes) {
    start_send(rank, data + at,
               static_cast<int>(std::min(route_.max_message_bytes, size_bytes - at)));
  }
}

void Messages::receive(int rank, std::byte* data, std::size_t size_bytes) {
  for (std::size_t at = 0; at < size_bytes; at += route_.max_message_bytes) {
    start_receive(rank, data + at,
                  static_cast<int>(std::min(route_.max_message_bytes, size_bytes - at)));
  }
}

void Messages::signal(int rank) {
  start_receive(rank, nullptr, 0);
  start_send(rank, nullptr, 0);
}

void Messages::start_send(int rank, const std::byte* data, int size_bytes) {
  check_mpi(MPI_Isend(data, size_bytes, MPI_BYTE, comm_rank(rank), route_.tag, route_.comm,
                      &add(rank, -1)),
            "MPI_Isend");
}

void Messages::start_receive(int rank, std::byte* data, int size_bytes) {
  check_mpi(MPI_Irecv(data, size_bytes, MPI_BYTE, comm_rank(rank), route_.tag, route_.comm,
                      &add(rank, size_bytes)),
            "MPI_Irecv");
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
    check(messages_[static_cast<std::size_t>(completed_[i])], statuses_[i]);
  }
  const bool all = std::all_of(requests_.begin(), requests_.end(),
                               [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
  if (!all) return Progress::kSome;
  requests_.clear();
  messages_.clear();
  return Progress::kAll;
}

void Messages::check(const Message& message, const MPI_Status& status) const {
  if (message.receive_bytes < 0) return;
  int received = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  if (received == message.receive_bytes) return;
  throw CommError("rank " + std::to_string(message.rank) + " sent " + std::to_string(received) +
                  " bytes, expected " + std::to_string(message.receive_bytes) +
                  "; all ranks must call the same with the same count, dtype, offsets and root");
}

std::vector<int> Messages::pending_ranks() const {
  std::set<int> ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) ranks.insert(messages_[i].rank);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace trireme
