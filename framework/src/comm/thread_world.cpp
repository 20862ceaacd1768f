// SPDX-License-Identifier: Apache-2.0
#include "comm/thread_world.hpp"

#include <cstring>
#include <numeric>

#include "comm/sum.hpp"
#include "comm/wire_format.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

std::byte* at(const Call& call, std::size_t element) {
  return static_cast<std::byte*>(call.data.data) + element * size_of(call.data.dtype);
}

void copy(const Call& from, const Call& to, std::size_t begin, std::size_t end) {
  if (from.data.data == to.data.data || begin == end) return;
  std::memcpy(at(to, begin), at(from, begin), (end - begin) * size_of(from.data.dtype));
}

// The sum of elements [begin, end) over the ranks of one node.
std::vector<std::byte> sum_of_node(const Meeting& meeting, const std::vector<int>& ranks,
                                   std::size_t begin, std::size_t end) {
  const DType dtype = meeting.calls[0]->data.dtype;
  std::vector<const std::byte*> parts;
  for (const int rank : ranks)
    parts.push_back(at(*meeting.calls[static_cast<std::size_t>(rank)], begin));
  std::vector<std::byte> sum((end - begin) * size_of(dtype));
  sum_in_order(dtype, parts, sum.data(), end - begin);
  return sum;
}

// Over all ranks: in the order of ranks on each node, and so over the nodes.
std::vector<std::byte> sum_of_all(const Meeting& meeting, const Layout& layout, std::size_t begin,
                                  std::size_t end) {
  std::vector<std::vector<std::byte>> sums;  // [node]
  std::vector<const std::byte*> parts;
  for (const auto& ranks : layout.nodes) {
    sums.push_back(sum_of_node(meeting, ranks, begin, end));
    parts.push_back(sums.back().data());
  }
  std::vector<std::byte> whole((end - begin) * size_of(meeting.calls[0]->data.dtype));
  sum_in_order(meeting.calls[0]->data.dtype, parts, whole.data(), end - begin);
  return whole;
}

void put(const std::vector<std::byte>& data, const Call& to, std::size_t begin) {
  if (!data.empty()) std::memcpy(at(to, begin), data.data(), data.size());
}

void reduce_scatter(const Meeting& meeting, const Layout& layout,
                    const std::vector<std::size_t>& offsets) {
  for (std::size_t r = 0; r < meeting.calls.size(); ++r) {
    put(sum_of_all(meeting, layout, offsets[r], offsets[r + 1]), *meeting.calls[r], offsets[r]);
  }
}

// As on the wire: rounded to its type.
void round_trip(std::vector<std::byte>& data, const Call& call, float* residual) {
  const std::size_t count = data.size() / sizeof(float);
  std::vector<std::uint16_t> half(count);
  auto* values = reinterpret_cast<float*>(data.data());
  encode(call.wire.type, values, residual, count, half.data(), call.wire.counts);
  decode(call.wire.type, half.data(), count, values);
}

// What this rank's roundings of the cell have left.
float* residual_of(const Call& call, const Placement& place, const Cell& cell) {
  if (call.wire.residual == nullptr) return nullptr;
  return call.wire.residual +
         (cell.begin - part_of(call.offsets, place.local_rank, place.local_size).begin);
}

void node_reduce_scatter(const Meeting& meeting, const Layout& layout) {
  const Call& first = *meeting.calls[0];
  std::vector<std::size_t> summed(meeting.calls.size());  // [rank] elements that it has summed
  for (const Cell& cell : cells_of_shards(first.offsets, layout, first.data.dtype)) {
    std::vector<std::vector<std::byte>> sums;  // [node]
    std::vector<const std::byte*> parts;
    const bool is_half = first.wire.type != WireType::kSame && layout.num_nodes() > 1;
    for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
      const int holder = cell.holders[node];
      const Call& call = *meeting.calls[static_cast<std::size_t>(holder)];
      sums.push_back(sum_of_node(meeting, layout.nodes[node], cell.begin, cell.end));
      if (is_half)
        round_trip(sums.back(), call, residual_of(call, layout.placement_of(holder), cell));
      parts.push_back(sums.back().data());
    }
    std::vector<std::byte> whole(sums.front().size());
    sum_in_order(first.data.dtype, parts, whole.data(), cell.end - cell.begin);
    const auto owner = static_cast<std::size_t>(cell.owner);
    const Call& call = *meeting.calls[owner];
    float* residual = call.wire.sum_residual;
    if (is_half) round_trip(whole, call, residual == nullptr ? nullptr : residual + summed[owner]);
    summed[owner] += cell.end - cell.begin;
    for (const int holder : cell.holders)
      put(whole, *meeting.calls[static_cast<std::size_t>(holder)], cell.begin);
  }
}

void all_gather(const Meeting& meeting, const std::vector<std::size_t>& offsets) {
  for (std::size_t r = 0; r < meeting.calls.size(); ++r) {
    for (const auto& to : meeting.calls) copy(*meeting.calls[r], *to, offsets[r], offsets[r + 1]);
  }
}

void carry_out(const Meeting& meeting, const Layout& layout) {
  const Call& first = *meeting.calls[0];
  switch (first.kind) {
    case Collective::kAllReduce: {
      const auto offsets = even_offsets(first.data.count, static_cast<int>(meeting.calls.size()));
      reduce_scatter(meeting, layout, offsets);
      all_gather(meeting, offsets);
      return;
    }
    case Collective::kReduceScatter:
      return reduce_scatter(meeting, layout, first.offsets);
    case Collective::kNodeReduceScatter:
      return node_reduce_scatter(meeting, layout);
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
    : ranks_per_node_(ranks_per_node > 0 ? ranks_per_node : size), all_(make_world_group(size)) {
  all_->layout = layout_of(all_->members);
}

Layout ThreadWorld::layout_of(const std::vector<int>& members) const {
  std::vector<int> node_ids;
  for (const int member : members) node_ids.push_back(node_of(member));
  return make_layout(node_ids);
}

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
    group->layout = layout_of(group->members);
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
  carry_out(*meeting, group.layout);
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
