// SPDX-License-Identifier: Apache-2.0
// Messages one after the other to or from one rank, a few in flight. Internal to the MPI
// communicator; progress thread only.
#pragma once

#include <array>
#include <cstddef>

#include "comm/messages.hpp"

namespace trireme {

class MessageStream {
 public:
  // More in flight bring nothing once the link is full, and each waiting receive holds memory.
  static constexpr std::size_t kWindow = 4;

  // rank: in the group of `route`, which outlives this.
  MessageStream(const Route& route, int rank) : route_(&route), rank_(rank) {}

  int rank() const { return rank_; }
  bool has_room() const { return started_ - completed_ < kWindow; }
  std::size_t started() const { return started_; }      // messages
  std::size_t completed() const { return completed_; }  // the first so many, as of the last poll()
  bool idle() const { return started_ == completed_; }

  // Start at once, while there is room. size_bytes: at most route.max_message_bytes. The memory
  // stays untouched until the message is complete.
  void send(const std::byte* data, std::size_t size_bytes);
  void receive(std::byte* data, std::size_t size_bytes);

  // Whether more is complete than before. Throws CommError where MPI fails or a message has another
  // length than was expected.
  bool poll();

 private:
  struct Message {
    MPI_Request request;
    int receive_bytes;  // -1: a send
  };

  Message& next() { return messages_[started_++ % kWindow]; }

  const Route* route_;
  int rank_;
  std::size_t started_ = 0, completed_ = 0;
  std::array<Message, kWindow> messages_ = {};
};

}  // namespace trireme
