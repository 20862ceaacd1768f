// SPDX-License-Identifier: Apache-2.0
// Point-to-point messages, and a batch of them in flight. Internal to the MPI communicator;
// progress thread only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/mpi_call.hpp"

namespace trireme {

// Where an operation's messages go.
struct Route {
  MPI_Comm comm = MPI_COMM_NULL;
  std::shared_ptr<const std::vector<int>> members;  // [rank in the group] -> rank in comm
  int tag = 0;
  std::size_t max_message_bytes = 0;
  std::atomic<std::uint64_t>* bytes_sent = nullptr;  // counts
};

// One message of at most max_message_bytes each; rank: in the group.
void start_send(const Route& route, int rank, const std::byte* data, std::size_t size_bytes,
                MPI_Request& request);
void start_receive(const Route& route, int rank, std::byte* data, std::size_t size_bytes,
                   MPI_Request& request);
// Throws CommError where the message that came has another length.
void check_length(const MPI_Status& status, int rank, int expected_bytes);

class Messages {
 public:
  enum class Progress { kNone, kSome, kAll };

  explicit Messages(Route route) : route_(std::move(route)) {}

  // Start at once. The memory stays untouched until poll() returns kAll. Messages between two ranks
  // arrive in the order in which they were sent. Nothing travels for 0 bytes; see signal().
  void send(int rank, const std::byte* data, std::size_t size_bytes);
  void receive(int rank, std::byte* data, std::size_t size_bytes);
  // An empty message to one rank, and one from another.
  void signal(int to, int from);

  // Throws CommError where MPI fails or a message has another length than was expected.
  Progress poll();
  // Of messages that are not complete: the other ranks, each once, ascending.
  std::vector<int> pending_ranks() const;

 private:
  struct Message {
    int rank;
    int receive_bytes;  // -1: a send
  };

  MPI_Request& add(int rank, int receive_bytes);

  const Route route_;
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  // [request]
  std::vector<int> completed_;     // of the last poll
  std::vector<MPI_Status> statuses_;
};

}  // namespace trireme
