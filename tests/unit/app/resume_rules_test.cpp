// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>

#include "app/estimate.hpp"
#include "app/resume.hpp"
#include "comm/local.hpp"
#include "config/fields.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

const char* const kYaml = R"(
model: {name: mlp, hidden: [8]}
data: {name: synthetic, samples: 50, classes: 3, shape: [6]}
optimizer: {name: adamw, lr: 0.1, groups: [{match: "*bias", frozen: true}]}
train: {epochs: 4, global_batch: 8}
)";

Value another(const Value& value) {
  return std::visit(
      [](auto old) -> Value {
        using Old = decltype(old);
        if constexpr (std::is_same_v<Old, bool>) return !old;
        if constexpr (std::is_same_v<Old, std::int64_t>) return old + 1;
        if constexpr (std::is_same_v<Old, double>) return old + 1;
        if constexpr (std::is_same_v<Old, std::string>) return old + "x";
        if constexpr (std::is_same_v<Old, std::vector<std::int64_t>>) return Old{17};
        if constexpr (std::is_same_v<Old, std::vector<double>>) return Old{17};
        if constexpr (std::is_same_v<Old, std::vector<std::string>>) return Old{"x"};
        return old;
      },
      value);
}

TEST(ResumeRules, LengthCadenceLoggingAndNetworkMayChangeAndNothingElse) {
  const Config before = config_of(kYaml);
  std::set<std::string> allowed;
  for (const Section& section : config_sections()) {
    for (const auto& field : section.fields) {
      Config after = before;
      field.set(after, another(field.get(before)));
      const std::string key = section.name + "." + field.key;
      ASSERT_EQ(compare_configs(before, after).size(), 1u) << key;
      try {
        require_resumable(before, after);
        allowed.insert(key);
      } catch (const ConfigError&) {
        // refused
      }
    }
  }
  const std::set<std::string> expected{"checkpoint.every_steps",
                                       "checkpoint.keep",
                                       "run.device",
                                       "parallel.bucket_mb",
                                       "parallel.edge_bucket_mb",
                                       "parallel.shard_over",
                                       "data.prefetch",
                                       "data.workers",
                                       "log.console_seconds",
                                       "log.every_steps",
                                       "log.ranks_every_steps",
                                       "run.name",
                                       "run.shared",
                                       "run.time_limit",
                                       "run.time_margin",
                                       "run.timeout",
                                       "train.epochs",
                                       "train.eval_batch",
                                       "train.max_steps",
                                       "train.eval_every_epochs",
                                       "train.update_in_backward",
                                       "train.patience"};
  const auto network = [](const std::string& key) { return key.starts_with("network."); };
  EXPECT_EQ(std::erase_if(allowed, network), 12u);
  EXPECT_EQ(allowed, expected);
}

TEST(ResumeRules, PowerSgdKeepsItsBuckets) {
  for (const char* sizes : {"bucket_mb: 3", "bucket_mb: 2, edge_bucket_mb: 1"}) {
    const auto config = [&](const std::string& compression, const std::string& buckets) {
      return config_of(kYaml + ("parallel: {compression: " + compression + ", ") + buckets + "}\n");
    };
    EXPECT_NO_THROW(require_resumable(config("fp16", "bucket_mb: 2"), config("fp16", sizes)));
    EXPECT_THROW(require_resumable(config("powersgd", "bucket_mb: 2"), config("powersgd", sizes)),
                 ConfigError)
        << sizes;
  }
}

TEST(ResumeRules, AnotherNumberOfNodesIsToldWhereItMatters) {
  const std::string key = "parallel.compression";
  EXPECT_EQ(warning_of_nodes(2, 1, ""), "");
  EXPECT_EQ(warning_of_nodes(2, 2, key), "");
  EXPECT_EQ(warning_of_nodes(0, 2, key), "") << "an older checkpoint";
  const std::string warning = warning_of_nodes(2, 1, key);
  EXPECT_NE(warning.find("without what it may owe"), std::string::npos) << warning;
  EXPECT_EQ(warning_of_nodes(1, 2, key).find("owe"), std::string::npos);
  EXPECT_EQ(warning_of_nodes(2, 1, "parallel.sync_every").find("owe"), std::string::npos);
  EXPECT_NE(warning.find("made on 2 nodes, and this run is on 1 node: parallel.compression"),
            std::string::npos)
      << warning;
}

TEST(ResumeRules, WhatIsRefusedIsNamedWithOldAndNew) {
  const Config before = config_of(kYaml);
  Config after = before;
  after.optimizer.lr = 0.25;
  after.run.seed = 17;
  try {
    require_resumable(before, after);
    FAIL() << "another rate was accepted";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("optimizer.lr: 0.1 -> 0.25"), std::string::npos) << text;
    EXPECT_NE(text.find("run.seed: 0 -> 17"), std::string::npos) << text;
    EXPECT_NE(text.find("--allow-changes"), std::string::npos) << text;
  }
}

TEST(Estimate, CountsParametersMemoryAndSteps) {
  const auto world = make_local_communicator();
  const Registry registry = all_parts();
  const Session session(config_of(kYaml), registry, *world);
  const Estimate alone = estimate(session, {});
  EXPECT_EQ(alone.trained_parameters, 6 * 8 + 8 * 3);
  EXPECT_EQ(alone.frozen_parameters, 8 + 3);
  EXPECT_EQ(alone.memory_bytes, 4 * (2 * 72 + 11 + 2 * 72));
  EXPECT_EQ(alone.checkpoint_bytes, 4 * (72 + 11 + 2 * 72));
  EXPECT_EQ(estimate(session, {.world = 2, .node = 2}).memory_bytes, 4 * (2 * 72 + 11 + 72))
      << "the optimizer's state is sharded";
  EXPECT_EQ(estimate(session, {.world = 2, .node = 1, .num_nodes = 2}).memory_bytes,
            alone.memory_bytes)
      << "over the node, and not over the world";
  Config over_world = config_of(kYaml);
  over_world.parallel.shard_over = "world";
  const Session other(over_world, registry, *world);
  EXPECT_EQ(estimate(other, {.world = 2, .node = 1, .num_nodes = 2}).memory_bytes,
            4 * (2 * 72 + 11 + 72));
  EXPECT_EQ(alone.length.total_steps, 4 * 7);
}

TEST(Estimate, CountsWhatCompressionOwes) {
  const auto world = make_local_communicator();
  const Registry registry = all_parts();
  const RankCounts four{.world = 4, .node = 2, .num_nodes = 2};
  Config config = config_of(kYaml);
  config.parallel.compression = "fp16";
  const Session without(config, registry, *world);
  EXPECT_EQ(estimate(without, four).residual_bytes, 0);
  config.parallel.error_feedback = true;
  const Session fp16(config, registry, *world);
  config.parallel.compression = "powersgd";
  config.parallel.error_feedback = false;
  const Session powersgd(config, registry, *world);
  // A part of two on each node; and of what fp16 takes off the sums, a part of four.
  for (const auto& [session, owed] : {std::pair(&fp16, 144 + 72), std::pair(&powersgd, 144)}) {
    const Estimate owing = estimate(*session, four);
    EXPECT_EQ(owing.residual_bytes, owed);
    EXPECT_EQ(owing.memory_bytes, estimate(without, four).memory_bytes + owed);
    const std::int64_t sets = session == &fp16 ? 3 : 2;  // each node's, and that of the sums
    EXPECT_EQ(owing.checkpoint_bytes, estimate(without, four).checkpoint_bytes + sets * 4 * 72);
    EXPECT_NE(to_text(owing, *session, four)
                  .find("of it " + std::to_string(owed) + " B that compression owes"),
              std::string::npos);
    EXPECT_EQ(estimate(*session, {.world = 2, .node = 2, .num_nodes = 1}).residual_bytes, 0)
        << "on one node nothing is compressed";
  }
  EXPECT_EQ(to_text(estimate(without, four), without, four).find("owes"), std::string::npos);
}

TEST(Estimate, WritesBytesAsPeopleDo) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1250), "1.25 kB");
  EXPECT_EQ(human_bytes(310'000), "310 kB");
  EXPECT_EQ(human_bytes(15'790'000), "15.79 MB");
}

}  // namespace
}  // namespace trireme::test
