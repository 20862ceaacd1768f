// SPDX-License-Identifier: Apache-2.0
// Requests, several communicators at once, groups, and the exchange of control texts.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "comm/threads.hpp"
#include "ranks.hpp"

namespace trireme {
namespace {

using testing::EveryKind;

Span span_of(std::vector<double>& data) { return {data.data(), data.size(), DType::kF64}; }

double sum_of_ranks(const Communicator& communicator) {
  return communicator.size() * (communicator.size() - 1) / 2.0;
}

class Groups : public EveryKind {};
TRIREME_EVERY_KIND(Groups);

TEST_P(Groups, OperationsOfTwoGroupsPostedInOppositeOrderDoNotDeadlock) {
  on_every_rank([](Communicator& communicator) {
    const auto other = communicator.split(0, communicator.rank());
    constexpr int kOperations = 50;
    const double first_value = communicator.rank();
    std::deque<std::vector<double>> memory(2 * kOperations, std::vector<double>(2000, first_value));
    std::vector<Request> requests;
    for (int i = 0; i < kOperations; ++i) {
      Communicator* order[] = {&communicator, other.get()};
      if (communicator.rank() % 2 == 1) std::swap(order[0], order[1]);
      for (const int k : {0, 1}) {
        requests.push_back(order[k]->all_reduce(span_of(memory[std::size_t(2 * i + k)])));
      }
    }
    // Waited for backwards: the last must not need a wait for the first.
    while (!requests.empty()) {
      requests.back().wait();
      requests.pop_back();
    }
    for (const auto& data : memory) EXPECT_EQ(data[1999], sum_of_ranks(communicator));
  });
}

TEST_P(Groups, BlockingCallsOfOneGroupPassPendingOnesOfAnother) {
  on_every_rank([](Communicator& communicator) {
    const auto other = communicator.split(0, communicator.rank());
    std::vector<double> data(3000, communicator.rank());
    Request pending;
    if (communicator.rank() == 0) pending = communicator.all_reduce(span_of(data));
    other->barrier();  // rank 0 waits here with an operation in flight that nobody joined yet
    if (communicator.rank() != 0) pending = communicator.all_reduce(span_of(data));
    pending.wait();
    EXPECT_EQ(data[0], sum_of_ranks(communicator));
  });
}

TEST_P(Groups, SplitGathersEqualColoursOrderedByKey) {
  on_every_rank([](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto half = communicator.split(rank % 2, -rank);  // keys reverse the order
    const int members = (communicator.size() + 1 - rank % 2) / 2;
    EXPECT_EQ(half->size(), members);
    EXPECT_EQ(half->rank(), members - 1 - rank / 2);
    const std::vector<std::string> ranks = half->exchange(std::to_string(rank));
    EXPECT_EQ(ranks[static_cast<std::size_t>(half->rank())], std::to_string(rank));
    EXPECT_EQ(ranks.back(), std::to_string(rank % 2));
    EXPECT_EQ(half->kind(), communicator.kind());
  });
}

TEST_P(Groups, AMarkTellsWhenItWasMade) {
  on_every_rank([](Communicator& communicator) {
    const auto before = std::chrono::steady_clock::now();
    Request mark = communicator.mark();
    mark.wait();
    EXPECT_TRUE(mark.test());
    const auto completed_at = mark.completed_at();
    EXPECT_GE(completed_at, before);
    EXPECT_LE(completed_at, std::chrono::steady_clock::now());
  });
}

TEST_P(Groups, EqualKeysKeepTheOrderOfRanks) {
  on_every_rank([](Communicator& communicator) {
    const auto same = communicator.split(5, 0);
    EXPECT_EQ(same->rank(), communicator.rank());
    EXPECT_EQ(same->size(), communicator.size());
  });
}

TEST_P(Groups, GroupsOfGroupsReduceAmongThemselves) {
  on_every_rank([](Communicator& communicator) {
    const auto half = communicator.split(communicator.rank() % 2, communicator.rank());
    const auto quarter = half->split(half->rank() % 2, half->rank());
    const auto all = communicator.split(0, 0);
    std::vector<double> in_all(1, 1), in_half(1, 1), in_quarter(1, 1);
    Request a = quarter->all_reduce(span_of(in_quarter));
    Request b = all->all_reduce(span_of(in_all));
    Request c = half->all_reduce(span_of(in_half));
    a.wait(), b.wait(), c.wait();
    EXPECT_EQ(in_quarter[0], quarter->size());
    EXPECT_EQ(in_half[0], half->size());
    EXPECT_EQ(in_all[0], communicator.size());
  });
}

TEST_P(Groups, PlacementAgreesWithItselfAndWithTheNodes) {
  on_every_rank([](Communicator& communicator) {
    const Placement mine = communicator.placement();
    std::vector<int> local_size(std::size_t(mine.num_nodes), 0);
    int rank = 0;
    for (const std::string& text : communicator.exchange(std::to_string(mine.node))) {
      int& size = local_size.at(std::size_t(std::stoi(text)));
      if (rank == communicator.rank()) {
        EXPECT_EQ(mine.local_rank, size);
      }
      ++size, ++rank;
    }
    EXPECT_EQ(mine.local_size, local_size[std::size_t(mine.node)]);
    EXPECT_EQ(mine.max_local_size, *std::max_element(local_size.begin(), local_size.end()));
    // Ranks that share no memory may still be of one node.
    const auto node = communicator.split_by_node();
    if (mine.max_local_size > 1) {
      EXPECT_EQ(node->size(), mine.local_size);
      EXPECT_EQ(node->rank(), mine.local_rank);
    }
    EXPECT_EQ(node->placement().num_nodes, mine.max_local_size > 1 ? 1 : node->size());
  });
}

TEST_P(Groups, SharedMemoryIsOneForTheRanksOfANode) {
  on_every_rank([](Communicator& communicator) {
    const Placement mine = communicator.placement();
    for (const std::size_t count : {std::size_t{5}, std::size_t{300'000}}) {
      Buffer buffer = communicator.allocate_shared(count * sizeof(double));
      auto* data = reinterpret_cast<double*>(buffer.data());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0u);
      EXPECT_EQ(data[count - 1], 0);
      communicator.barrier();
      if (mine.local_rank == 0) data[count - 1] = 17 + mine.node;
      communicator.barrier();
      EXPECT_EQ(data[count - 1], 17 + mine.node);
      communicator.barrier();

      // A gather in place, as parameters are: each rank writes its part, all see all.
      std::vector<std::size_t> offsets;
      for (int r = 0; r <= communicator.size(); ++r)
        offsets.push_back(count * std::size_t(r) / std::size_t(communicator.size()));
      const auto rank = std::size_t(communicator.rank());
      for (std::size_t i = offsets[rank]; i < offsets[rank + 1]; ++i) data[i] = double(i) + 0.5;
      communicator.all_gather({data, count, DType::kF64}, offsets).wait();
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], double(i) + 0.5) << i;
      communicator.barrier();
      if (communicator.rank() == 0) std::fill(data, data + count, 3.0);
      communicator.broadcast({data, count, DType::kF64}, 0).wait();
      ASSERT_TRUE(std::all_of(data, data + count, [](double x) { return x == 3.0; }));
      communicator.barrier();
    }
  });
}

TEST_P(Groups, ExchangeBringsTextsOfAnyLength) {
  on_every_rank([](Communicator& communicator) {
    const auto text = [](int rank) {
      if (rank == 1) return std::string();
      const std::size_t length = rank == 0 ? 1 << 20 : std::size_t(10 * rank);
      return std::string(length, static_cast<char>('a' + rank));
    };
    const std::vector<std::string> all = communicator.exchange(text(communicator.rank()));
    ASSERT_EQ(all.size(), static_cast<std::size_t>(communicator.size()));
    for (int rank = 0; rank < communicator.size(); ++rank) {
      EXPECT_EQ(all[static_cast<std::size_t>(rank)], text(rank)) << rank;
    }
  });
}

TEST_P(Groups, ADestroyedRequestHasLeftTheMemory) {
  on_every_rank([](Communicator& communicator) {
    std::vector<double> data(20000, communicator.rank());
    { const Request dropped = communicator.all_reduce(span_of(data)); }
    EXPECT_EQ(data[19999], sum_of_ranks(communicator));
    std::vector<double> other(20000, communicator.rank());
    data[0] = communicator.rank() == 0 ? 17 : 0;
    Request overwritten = communicator.broadcast(span_of(data), 0);
    overwritten = communicator.all_reduce(span_of(other));
    EXPECT_EQ(data[0], 17);
    overwritten.wait();
    EXPECT_EQ(other[0], sum_of_ranks(communicator));
  });
}

TEST_P(Groups, RequestsCompleteWithoutAWaitAndKnowWhen) {
  on_every_rank([](Communicator& communicator) {
    std::vector<double> data(1000, 1);
    const auto before = std::chrono::steady_clock::now();
    Request request = communicator.all_reduce(span_of(data));
    communicator.barrier();
    while (!request.test()) std::this_thread::yield();
    EXPECT_EQ(data[0], communicator.size());
    const auto completed_at = request.completed_at();
    EXPECT_GE(completed_at, before);
    EXPECT_LE(completed_at, std::chrono::steady_clock::now());
  });
}

TEST_P(Groups, AGroupMayOutliveItsParent) {
  on_every_rank([](Communicator& communicator) {
    auto parent = communicator.split(0, 0);
    const auto child = parent->split(0, 0);
    parent.reset();
    EXPECT_EQ(child->exchange("x").size(), static_cast<std::size_t>(communicator.size()));
  });
}

TEST_P(Groups, ManyOperationsInFlightKeepTheirOrder) {
  on_every_rank([](Communicator& communicator) {
    std::vector<std::vector<double>> memory(3000, std::vector<double>(1));
    std::vector<Request> requests;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      memory[i][0] = communicator.rank() == 0 ? double(i) : -1;
      requests.push_back(communicator.broadcast(span_of(memory[i]), 0));
    }
    for (Request& request : requests) request.wait();
    for (std::size_t i = 0; i < memory.size(); ++i) EXPECT_EQ(memory[i][0], double(i));
  });
}

TEST_P(Groups, AllocatedMemoryIsZeroedAlignedAndOutlivesTheGroup) {
  on_every_rank([](Communicator& communicator) {
    auto group = communicator.split(0, 0);
    Buffer buffer = group->allocate((3 << 20) + 5);
    group.reset();
    ASSERT_EQ(buffer.size_bytes(), std::size_t{3 << 20} + 5);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.data()[0], std::byte{0});
    buffer.data()[buffer.size_bytes() - 1] = std::byte{1};
  });
}

}  // namespace
}  // namespace trireme
