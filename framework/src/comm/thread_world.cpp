// SPDX-License-Identifier: Apache-2.0
#include "comm/thread_world.hpp"

#include <cstring>
#include <numeric>

#include "comm/sum.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

std::byte* at(const Call& call, std::size_t element) {
  return static_cast<std::byte*>(call.data.data) + element * size_of(call.data.dtype);
}

void copy(const Call& from, const Call& to, std::size_t begin, std::size_t end) {
  if (&from == &to || begin == end) return;
  std::memcpy(at(to, begin), at(from, begin), (end - begin) * size_of(from.data.dtype));
}

// Sums elements [begin, end) of all ranks into `owner`'s data.
void sum(const Meeting& meeting, std::size_t owner, std::size_t begin, std::size_t end) {
  std::vector<const std::byte*> parts;
  for (const auto& call : meeting.calls) parts.push_back(at(*call, begin));
  sum_in_order(meeting.calls[0]->data.dtype, parts, at(*meeting.calls[owner], begin), end - begin);
}

void reduce_scatter(const Meeting& meeting, const std::vector<std::size_t>& offsets) {
  for (std::size_t r = 0; r < meeting.calls.size(); ++r) {
    sum(meeting, r, offsets[r], offsets[r + 1]);
  }
}

void all_gather(const Meeting& meeting, const std::vector<std::size_t>& offsets) {
  for (std::size_t r = 0; r < meeting.calls.size(); ++r) {
    for (const auto& to : meeting.calls) copy(*meeting.calls[r], *to, offsets[r], offsets[r + 1]);
  }
}

void carry_out(const Meeting& meeting) {
  const Call& first = *meeting.calls[0];
  switch (first.kind) {
    case Collective::kAllReduce: {
      const auto offsets = even_offsets(first.data.count, static_cast<int>(meeting.calls.size()));
      reduce_scatter(meeting, offsets);
      all_gather(meeting, offsets);
      return;
    }
    case Collective::kReduceScatter:
      return reduce_scatter(meeting, first.offsets);
    case Collective::kAllGather:
      return all_gather(meeting, first.offsets);
    case Collective::kBroadcast:
      for (const auto& to : meeting.calls) {
        copy(*meeting.calls[static_cast<std::size_t>(first.root)], *to, 0, first.data.count);
      }
      return;
    case Collective::kExchange:  // each rank reads the others' calls
    case Collective::kBarrier:
      return;
  }
}

// Empty, or how two ranks' calls differ.
std::string find_mismatch(const Meeting& meeting) {
  for (std::size_t r = 1; r < meeting.calls.size(); ++r) {
    if (matches(*meeting.calls[0], *meeting.calls[r])) continue;
    return "ranks call different collectives: rank 0 " + describe(*meeting.calls[0]) + ", rank " +
           std::to_string(r) + " " + describe(*meeting.calls[r]) +
           "; all must call the same with the same count, dtype, offsets and root";
  }
  return {};
}

std::string missing_ranks(const Meeting& meeting) {
  std::string ranks;
  for (std::size_t r = 0; r < meeting.calls.size(); ++r) {
    if (!meeting.calls[r]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  }
  return ranks;
}

std::shared_ptr<ThreadGroup> make_world_group(int size) {
  auto group = std::make_shared<ThreadGroup>();
  group->members.resize(static_cast<std::size_t>(size));
  std::iota(group->members.begin(), group->members.end(), 0);
  return group;
}

}  // namespace

ThreadWorld::ThreadWorld(int size, int ranks_per_node)
    : ranks_per_node_(ranks_per_node > 0 ? ranks_per_node : size), all_(make_world_group(size)) {}

std::shared_ptr<ThreadGroup> ThreadWorld::subgroup(const ThreadGroup& parent,
                                                   std::uint64_t sequence,
                                                   const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ThreadGroup>& group = subgroups_[{parent.id, sequence, members.front()}];
  if (!group) {
    group = std::make_shared<ThreadGroup>();
    group->id = static_cast<int>(subgroups_.size());
    for (const int rank : members) {
      group->members.push_back(parent.members[static_cast<std::size_t>(rank)]);
    }
  }
  return group;
}

std::shared_ptr<Meeting> ThreadWorld::arrive(ThreadGroup& group, int rank, Call call) {
  const std::lock_guard lock(mutex_);
  const int size = static_cast<int>(group.members.size());
  if (error_) give_up(call, rank, group.members.size());
  const std::uint64_t sequence = call.sequence;
  std::shared_ptr<Meeting>& slot = group.open[sequence];
  if (!slot) slot = std::make_shared<Meeting>(size);
  const std::shared_ptr<Meeting> meeting = slot;
  meeting->calls[static_cast<std::size_t>(rank)] = std::make_unique<Call>(std::move(call));
  if (++meeting->num_arrived < size) return meeting;

  group.open.erase(sequence);
  if (const std::string mismatch = find_mismatch(*meeting); !mismatch.empty()) {
    fail_locked(std::make_exception_ptr(CommError(mismatch)), mismatch);
    return meeting;  // the error comes out of wait(), on every rank alike
  }
  carry_out(*meeting);
  meeting->completed_at = std::chrono::steady_clock::now();
  meeting->done = true;
  changed_.notify_all();
  return meeting;
}

bool ThreadWorld::test(const Meeting& meeting) {
  const std::lock_guard lock(mutex_);
  return meeting.done || error_;
}

void ThreadWorld::wait(const Meeting& meeting, int rank, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto settled = [&] { return meeting.done || error_; };
  const Call& call = *meeting.calls[static_cast<std::size_t>(rank)];
  if (timeout.count() <= 0) {
    changed_.wait(lock, settled);
  } else if (!changed_.wait_for(lock, timeout, settled)) {
    const std::string text = describe(call) + " on " +
                             describe_rank(rank, static_cast<int>(meeting.calls.size())) +
                             " is not complete after " + std::to_string(timeout.count()) +
                             " ms: waiting for rank " + missing_ranks(meeting);
    fail_locked(std::make_exception_ptr(CommError(text)), text);
  }
  if (!meeting.done) give_up(call, rank, meeting.calls.size());
}

std::chrono::steady_clock::time_point ThreadWorld::completed_at(const Meeting& meeting) {
  const std::lock_guard lock(mutex_);
  return meeting.completed_at;
}

void ThreadWorld::fail(std::exception_ptr error, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  fail_locked(std::move(error), reason);
}

void ThreadWorld::fail_locked(std::exception_ptr error, const std::string& reason) {
  if (error_) return;
  error_ = std::move(error);
  reason_ = reason;
  changed_.notify_all();
}

std::exception_ptr ThreadWorld::first_error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

void ThreadWorld::give_up(const Call& call, int rank, std::size_t size) const {
  throw CommError(describe(call) + " on " + describe_rank(rank, static_cast<int>(size)) +
                  " failed: " + reason_);
}

}  // namespace trireme
