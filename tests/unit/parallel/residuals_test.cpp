// SPDX-License-Identifier: Apache-2.0
#include "parallel/residuals.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/threads.hpp"

namespace trireme {
namespace {

// What a checkpoint holds of it.
using Saved = std::map<std::pair<std::string, std::size_t>, at::Tensor>;  // (slot, parameter)

const std::vector<std::vector<std::int64_t>> kShapes = {{20, 30}, {17}, {9, 4, 5}};

// Parameters in several buckets, and what compression of them owes.
struct Owed {
  explicit Owed(Communicator& c) : sharding(c, Sharding::Over::kNode) {
    std::vector<NamedTensor> named;
    std::vector<PlanParameter> plan;
    for (const std::vector<std::int64_t>& shape : kShapes) {
      const at::Tensor p = torch::zeros(shape).set_requires_grad(true);
      named.push_back({std::string("p") + char('0' + named.size()), p});
      plan.push_back({.name = named.back().name, .numel = p.numel()});
    }
    flat = std::make_unique<FlatParameters>(
        named, make_bucket_plan(plan, {.bucket_bytes = 1000}, sharding.num_shards()), c);
    residuals = std::make_unique<Residuals>(*flat, sharding, /*of_sums=*/true);
  }

  Saved save() const {
    Saved saved;
    residuals->visit([&](const std::string& slot, std::size_t parameter, const at::Tensor& owed) {
      saved[{slot, parameter}] = owed.clone();
    });
    return saved;
  }

  void restore(const Saved& saved) {
    residuals->restore([&](const std::string& slot, std::size_t parameter, const at::Tensor& to) {
      const auto found = saved.find({slot, parameter});
      if (found == saved.end()) return false;
      to.copy_(found->second);
      return true;
    });
  }

  Sharding sharding;
  std::unique_ptr<FlatParameters> flat;
  std::unique_ptr<Residuals> residuals;
};

// Whole numbers, whose sums are exact in any order, others for each node and element; and of the
// sums over nodes.
Saved owed_by(int nodes) {
  Saved saved;
  for (int node = 0; node <= nodes; ++node) {
    const std::string slot = node < nodes ? std::string("residual.") + std::to_string(node)
                                          : std::string("sum_residual");
    for (std::size_t p = 0; p < kShapes.size(); ++p) {
      const std::int64_t n = c10::multiply_integers(kShapes[p]);
      saved[{slot, p}] = (torch::arange(n, torch::kFloat) + float(1000 * (node + 1) + 100 * int(p)))
                             .view(kShapes[p]);
    }
  }
  return saved;
}

// Over all nodes.
at::Tensor owed_in_all(const Saved& saved, std::size_t parameter) {
  at::Tensor sum = torch::zeros(kShapes[parameter]);
  for (const auto& [key, owed] : saved) {
    if (key.second == parameter) sum += owed;
  }
  return sum;
}

// What is owed after a restore, as rank 0 would save it.
Saved after_restore(const Saved& saved, int ranks, int ranks_per_node) {
  Saved after;
  run_as_threads(ranks,
                 [&](Communicator& c) {
                   Owed owed(c);
                   for (std::size_t b = 0; b < owed.flat->plan().buckets.size(); ++b) {
                     owed.residuals->part(b).fill_(-1);  // of another run
                     owed.residuals->of_sums(b).fill_(-1);
                   }
                   owed.restore(saved);
                   Saved own = owed.save();
                   if (c.rank() == 0) after = std::move(own);
                 },
                 {.ranks_per_node = ranks_per_node});
  return after;
}

TEST(Residuals, AreEachNodesOwnWhereTheNumberOfNodesIsTheSame) {
  for (const auto& [ranks, per_node] : {std::pair(4, 2), std::pair(2, 1), std::pair(5, 3)}) {
    const Saved saved = owed_by(2), after = after_restore(saved, ranks, per_node);
    ASSERT_EQ(after.size(), saved.size());
    for (const auto& [key, owed] : saved)
      EXPECT_TRUE(after.at(key).equal(owed)) << key.first << ", parameter " << key.second;
  }
}

TEST(Residuals, AreOwedInAllWhereTheNumberOfNodesIsAnother) {
  for (const int nodes_before : {1, 2, 4}) {
    const Saved saved = owed_by(nodes_before);
    for (const auto& [ranks, per_node] : {std::pair(3, 1), std::pair(5, 2)}) {
      const Saved after = after_restore(saved, ranks, per_node);
      for (std::size_t p = 0; p < kShapes.size(); ++p) {
        EXPECT_TRUE(after.at({"sum_residual", p}).equal(saved.at({"sum_residual", p})));
        EXPECT_TRUE(owed_in_all(after, p).equal(owed_in_all(saved, p)))
            << "parameter " << p << ", from " << nodes_before << " nodes to " << ranks << " ranks";
      }
    }
  }
}

// Which compresses nothing: it would carry them for ever.
TEST(Residuals, AreDroppedByOneNode) { EXPECT_TRUE(after_restore(owed_by(2), 3, 0).empty()); }

TEST(Residuals, AreZeroWhereACheckpointHasNone) {
  for (const auto& [key, owed] : after_restore({}, 4, 2))
    EXPECT_FALSE(owed.any().item<bool>()) << key.first << ", parameter " << key.second;
}

}  // namespace
}  // namespace trireme
