// SPDX-License-Identifier: Apache-2.0
#include "comm/layout.hpp"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

// Nodes of 3, 1 and 2 ranks, dealt in no order.
Layout uneven() { return make_layout(std::vector<int>{40, 7, 40, 9, 9, 40}); }

TEST(Layout, NodesAreNumberedByTheirLowestRank) {
  const Layout layout = uneven();
  EXPECT_EQ(layout.nodes, (std::vector<std::vector<int>>{{0, 2, 5}, {1}, {3, 4}}));
  const Placement place = layout.placement_of(4);
  EXPECT_EQ(place.num_nodes, 3);
  EXPECT_EQ(place.node, 2);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_size, 2);
  EXPECT_EQ(place.max_local_size, 3);
}

TEST(Layout, PartsOfANodeCoverAllShardsInOrder) {
  const std::vector<std::size_t> offsets = {0, 10, 11, 30, 30, 64};
  for (int size = 1; size <= 8; ++size) {
    std::size_t end = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Part part = part_of(offsets, rank, size);
      EXPECT_EQ(part.begin, end);
      end = part.end;
    }
    EXPECT_EQ(end, 64u) << size;
  }
  EXPECT_EQ(part_of(offsets, 0, 2).end, 30u);  // 3 of 5 shards
}

void expect_complete(const std::vector<Cell>& cells, const Layout& layout, std::size_t count) {
  std::size_t end = 0;
  for (const Cell& cell : cells) {
    EXPECT_EQ(cell.begin, end);
    EXPECT_LT(cell.begin, cell.end);
    end = cell.end;
    ASSERT_EQ(cell.holders.size(), layout.nodes.size());
    for (std::size_t node = 0; node < layout.nodes.size(); ++node)
      EXPECT_EQ(layout.node_of[std::size_t(cell.holders[node])], int(node));
    EXPECT_EQ(cell.holders[std::size_t(layout.node_of[std::size_t(cell.owner)])], cell.owner);
  }
  EXPECT_EQ(end, count);
}

TEST(Layout, CellsOfRanksBelongToTheOwnersOfTheParts) {
  const Layout layout = uneven();
  const std::vector<std::size_t> offsets = {0, 5, 5, 20, 21, 40, 100};
  const std::vector<Cell> cells = cells_of_ranks(offsets, layout);
  expect_complete(cells, layout, 100);
  ASSERT_EQ(cells.size(), 5u);  // rank 1 owns nothing
  EXPECT_EQ(cells[1].owner, 2);
  EXPECT_EQ(cells[1].holders, (std::vector<int>{2, 1, 4}));
}

TEST(Layout, CellsOfShardsLieWithWhoeverHasTheShardOnItsNode) {
  const Layout layout = uneven();
  const std::vector<std::size_t> offsets = {0, 1000, 1000, 1700};
  const std::vector<Cell> cells = cells_of_shards(offsets, layout, DType::kF32);
  expect_complete(cells, layout, 1700);
  std::set<int> owners;
  for (const Cell& cell : cells) {
    for (int node = 0; node < layout.num_nodes(); ++node) {
      const int holder = cell.holders[std::size_t(node)];
      const Placement place = layout.placement_of(holder);
      const Part part = part_of(offsets, place.local_rank, place.local_size);
      EXPECT_LE(part.begin, cell.begin);
      EXPECT_GE(part.end, cell.end);
    }
    if (cell.begin != 1000) {
      EXPECT_EQ(cell.begin % 16 == 0 || (cell.begin - 1000) % 16 == 0, true);
    }
    owners.insert(layout.node_of[std::size_t(cell.owner)]);
  }
  EXPECT_EQ(owners.size(), 3u);  // each node sums a share
}

TEST(Layout, SummedPartsAreTheCellsThatTheRankOwns) {
  const Layout layout = uneven();
  const std::vector<std::size_t> offsets = {0, 1000, 1000, 1700};
  std::vector<std::vector<std::size_t>> begins(layout.node_of.size());  // [rank]
  std::vector<std::size_t> counts(layout.node_of.size());
  for (const Cell& cell : cells_of_shards(offsets, layout, DType::kF32)) {
    begins[std::size_t(cell.owner)].push_back(cell.begin);
    counts[std::size_t(cell.owner)] += cell.end - cell.begin;
  }
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    std::vector<std::size_t> own_begins;
    std::size_t own_count = 0;
    for (const Part& part :
         summed_parts(offsets, layout.placement_of(static_cast<int>(rank)), DType::kF32)) {
      own_begins.push_back(part.begin);
      own_count += part.size();
    }
    EXPECT_EQ(own_begins, begins[rank]) << rank;
    EXPECT_EQ(own_count, counts[rank]) << rank;
  }
}

}  // namespace
}  // namespace trireme
