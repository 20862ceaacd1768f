// SPDX-License-Identifier: Apache-2.0
#include "comm/threads.hpp"

#include <string>
#include <thread>
#include <vector>

#include "base/activity.hpp"
#include "comm/group.hpp"
#include "comm/memory.hpp"
#include "comm/thread_world.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

class ThreadOperation : public Operation, private Awaited {
 public:
  ThreadOperation(std::shared_ptr<ThreadWorld> world, std::shared_ptr<Meeting> meeting, int rank,
                  std::chrono::milliseconds timeout)
      : world_(std::move(world)), meeting_(std::move(meeting)), rank_(rank), timeout_(timeout) {}

  bool test() override {
    if (!world_->test(*meeting_)) return false;
    wait();  // returns at once, or throws why the operation failed
    return true;
  }
  void wait() override {
    const WaitScope waiting(*this);
    world_->wait(*meeting_, rank_, timeout_);
  }
  void abandon() noexcept override {
    try {
      wait();
    } catch (const CommError&) {
      // Kept by the world: the next call on any communicator throws it.
    }
  }
  std::chrono::steady_clock::time_point completed_at() const override {
    return world_->completed_at(*meeting_);
  }

 private:
  std::string describe_wait() override { return {}; }  // no watchdog looks at ranks as threads

  const std::shared_ptr<ThreadWorld> world_;
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  const std::chrono::milliseconds timeout_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadWorld> world, std::shared_ptr<ThreadGroup> group,
                     int rank, std::chrono::milliseconds timeout)
      : world_(std::move(world)), group_(std::move(group)), rank_(rank), timeout_(timeout) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->members.size()); }
  std::string_view kind() const override { return "threads"; }
  Placement placement() const override { return group_->layout.placement_of(rank_); }

  Request all_reduce(Span data) override {
    return post({.kind = Collective::kAllReduce, .data = data});
  }
  Request reduce_scatter(Span data, std::span<const std::size_t> offsets) override {
    return post({.kind = Collective::kReduceScatter,
                 .data = data,
                 .offsets = {offsets.begin(), offsets.end()}});
  }
  Request node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                              const Wire& wire) override {
    return post({.kind = Collective::kNodeReduceScatter,
                 .data = data,
                 .offsets = {offsets.begin(), offsets.end()},
                 .wire = wire});
  }
  Request all_gather(Span data, std::span<const std::size_t> offsets) override {
    return post({.kind = Collective::kAllGather,
                 .data = data,
                 .offsets = {offsets.begin(), offsets.end()}});
  }
  Request broadcast(Span data, int root) override {
    return post({.kind = Collective::kBroadcast, .data = data, .root = root});
  }

  std::vector<std::string> exchange(std::string_view bytes) override {
    const auto meeting = meet({.kind = Collective::kExchange, .bytes = std::string(bytes)});
    std::vector<std::string> all;
    for (const auto& call : meeting->calls) all.push_back(call->bytes);
    return all;
  }
  void barrier() override { meet({.kind = Collective::kBarrier}); }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const std::uint64_t sequence = sequence_;
    const std::vector<int> members = agree_on_group(*this, color, key);
    return std::make_unique<ThreadCommunicator>(
        world_, world_->subgroup(*group_, sequence, members), index_in(members, rank_), timeout_);
  }
  std::unique_ptr<Communicator> split_by_node() override {
    return split(world_->node_of(group_->members[static_cast<std::size_t>(rank_)]), rank_);
  }

  Buffer allocate(std::size_t size_bytes) override { return allocate_pages(size_bytes); }
  Buffer allocate_shared(std::size_t size_bytes) override {
    const Placement here = placement();
    std::shared_ptr<Buffer> memory;
    if (here.local_rank == 0) memory = std::make_shared<Buffer>(allocate(size_bytes));
    // The address of the owner's pointer; it lives until all have copied it.
    const auto address = reinterpret_cast<std::uintptr_t>(&memory);
    const std::vector<std::string> owners = exchange(std::to_string(address));
    const int owner = group_->layout.nodes[static_cast<std::size_t>(here.node)].front();
    const std::shared_ptr<Buffer> shared = *reinterpret_cast<const std::shared_ptr<Buffer>*>(
        std::stoull(owners[static_cast<std::size_t>(owner)]));
    barrier();
    return Buffer(shared->data(), size_bytes, [shared](void*, std::size_t) {});
  }
  void set_timeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }

 private:
  std::shared_ptr<Meeting> arrive(Call call) {
    call.sequence = sequence_++;
    check_arguments(call, size());
    return world_->arrive(*group_, rank_, std::move(call));
  }
  Request post(Call call) {
    return Request(
        std::make_shared<ThreadOperation>(world_, arrive(std::move(call)), rank_, timeout_));
  }
  std::shared_ptr<Meeting> meet(Call call) {
    auto meeting = arrive(std::move(call));
    world_->wait(*meeting, rank_, timeout_);
    return meeting;
  }

  const std::shared_ptr<ThreadWorld> world_;
  const std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  std::chrono::milliseconds timeout_;
  std::uint64_t sequence_ = 0;
};

void run_rank(const std::shared_ptr<ThreadWorld>& world, int rank,
              const std::function<void(Communicator&)>& body, std::chrono::milliseconds timeout) {
  const std::string who = "rank " + std::to_string(rank) + " threw";
  try {
    ThreadCommunicator communicator(world, world->all(), rank, timeout);
    body(communicator);
  } catch (const std::exception& error) {
    world->fail(std::current_exception(), who + ": " + error.what());
  } catch (...) {
    world->fail(std::current_exception(), who);
  }
}

}  // namespace

void run_as_threads(int ranks, const std::function<void(Communicator&)>& body,
                    const ThreadsOptions& options) {
  TRIREME_ASSERT(ranks > 0, "run_as_threads needs a rank");
  const auto world = std::make_shared<ThreadWorld>(ranks, options.ranks_per_node);
  {
    std::vector<std::jthread> threads;  // joined at the end of this block
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back(
          [&world, &body, &options, rank] { run_rank(world, rank, body, options.timeout); });
    }
  }
  if (const std::exception_ptr error = world->first_error()) std::rethrow_exception(error);
}

}  // namespace trireme
