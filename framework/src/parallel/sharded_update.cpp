// SPDX-License-Identifier: Apache-2.0
#include "parallel/sharded_update.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace trireme {

struct ShardedUpdate::Segment {
  int group = 0;
  Update update;
};

namespace {

// Buckets hold rules with different numbers of slots (sgd without momentum beside adamw): as many
// as the largest wants.
std::size_t most_slots(const PlanBucket& bucket, const std::vector<int>& group_of,
                       const std::vector<std::unique_ptr<Optimizer>>& rules) {
  std::size_t most = 0;
  for (const PlanItem& item : bucket.items) {
    const int group = group_of[static_cast<std::size_t>(item.parameter)];
    most = std::max(most, rules[static_cast<std::size_t>(group)]->slots().size());
  }
  return most;
}

}  // namespace

ShardedUpdate::ShardedUpdate(FlatParameters& flat, std::vector<ParameterGroup> groups,
                             std::vector<int> group_of, Sharding& sharding)
    : flat_(flat), groups_(std::move(groups)), group_of_(std::move(group_of)), sharding_(sharding) {
  for (const ParameterGroup& group : groups_) rules_.push_back(make_optimizer(group.settings));
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
    const at::Tensor like = part(flat_.values(b), b);
    state_.emplace_back();
    for (std::size_t s = 0; s < most_slots(flat_.plan().buckets[b], group_of_, rules_); ++s) {
      state_.back().push_back(at::zeros_like(like));
    }
    add_segments(b);
  }
}

ShardedUpdate::~ShardedUpdate() = default;

std::int64_t ShardedUpdate::part_begin(std::size_t bucket) const {
  return static_cast<std::int64_t>(
      sharding_.part(flat_.plan().buckets[bucket].shard_offsets).begin);
}

at::Tensor ShardedUpdate::part(const at::Tensor& flat, std::size_t bucket) const {
  return narrow(flat, sharding_.part(flat_.plan().buckets[bucket].shard_offsets));
}

const Optimizer& ShardedUpdate::rule_of(const PlanItem& item) const {
  return *rules_[static_cast<std::size_t>(group_of_[static_cast<std::size_t>(item.parameter)])];
}

void ShardedUpdate::add_segments(std::size_t b) {
  segments_.emplace_back();
  const PlanBucket& bucket = flat_.plan().buckets[b];
  const std::int64_t begin = part_begin(b);
  const std::int64_t end = begin + part(flat_.values(b), b).numel();
  for (std::size_t i = 0; i < bucket.items.size();) {
    const int group = group_of_[static_cast<std::size_t>(bucket.items[i].parameter)];
    std::size_t next = i + 1;
    while (!bucket.whole && next < bucket.items.size() &&
           group_of_[static_cast<std::size_t>(bucket.items[next].parameter)] == group) {
      ++next;
    }
    const std::int64_t run_end =
        next < bucket.items.size() ? bucket.items[next].offset : bucket.numel;
    const std::int64_t from = std::max(begin, bucket.items[i].offset), to = std::min(end, run_end);
    if (from < to) {
      Segment segment{.group = group, .update = {}};
      const auto piece = [&](const at::Tensor& flat, std::int64_t flat_begin) {
        return bucket.whole ? flat_.view(flat, flat_begin, bucket.items[i])
                            : flat.narrow(0, from - flat_begin, to - from);
      };
      segment.update.parameter = piece(flat_.values(b), 0);
      segment.update.gradient = piece(flat_.gradients(b), 0);
      for (std::size_t s = 0; s < rule_of(bucket.items[i]).slots().size(); ++s) {
        segment.update.slots.push_back(piece(state_[b][s], begin));
      }
      segments_[b].push_back(std::move(segment));
    }
    i = next;
  }
}

SquaredNorm ShardedUpdate::squared_norm() const {
  static_assert(kNormBlock == kShardBlock);
  SquaredNorm norm;
  if (!sharding_.adds_own_part()) return norm;
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
    const PlanBucket& bucket = flat_.plan().buckets[b];
    const Part own = sharding_.part(bucket.shard_offsets);
    for (std::size_t i = 0; i < bucket.items.size(); ++i) {
      const std::int64_t end =
          i + 1 < bucket.items.size() ? bucket.items[i + 1].offset : bucket.numel;
      const std::int64_t from = std::max(bucket.items[i].offset, std::int64_t(own.begin));
      const std::int64_t to = std::min(end, std::int64_t(own.end));
      if (from < to) add_squares(flat_.gradients(b).slice(0, from, to), norm);
    }
  }
  return norm;
}

void ShardedUpdate::scale_gradients(double factor) {
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b)
    part(flat_.gradients(b), b).mul_(factor);
}

void ShardedUpdate::step(std::span<const double> rates, std::int64_t step) {
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) update(b, rates, step);
  gather();
}

void ShardedUpdate::update(std::size_t bucket, std::span<const double> rates, std::int64_t step) {
  const at::NoGradGuard no_grad;
  for (Segment& segment : segments_[bucket]) {
    segment.update.lr = rates[static_cast<std::size_t>(segment.group)];
    segment.update.step = step;
    rules_[static_cast<std::size_t>(segment.group)]->step(segment.update);
  }
}

void ShardedUpdate::gather() {
  const auto updated = std::chrono::steady_clock::now();
  std::vector<Request> gathers;
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
    gathers.push_back(
        sharding_.gather(span_of(flat_.values(b)), flat_.plan().buckets[b].shard_offsets));
  }
  for (std::size_t b = 0; b < gathers.size(); ++b) flat_.wait(gathers[b], "parameters", b);
  const std::chrono::duration<double, std::milli> waited =
      std::chrono::steady_clock::now() - updated;
  waited_ms_ = waited.count();
}

std::vector<ShardedUpdate::SlotTensor> ShardedUpdate::state_tensors(std::size_t b) const {
  std::vector<SlotTensor> tensors;
  for (const PlanItem& item : flat_.plan().buckets[b].items) {
    const auto parameter = static_cast<std::size_t>(item.parameter);
    for (const std::string& slot : rule_of(item).slots()) {
      const at::Tensor& like = flat_.parameters()[parameter].tensor;
      tensors.push_back(
          {slot, parameter, at::zeros(like.sizes(), like.options().requires_grad(false))});
    }
  }
  return tensors;
}

std::vector<ShardedUpdate::SlotTensor> ShardedUpdate::gather_state(std::size_t b) {
  const PlanBucket& bucket = flat_.plan().buckets[b];
  std::vector<at::Tensor> whole;  // [slot number]
  for (const at::Tensor& state : state_[b]) {
    whole.push_back(at::zeros({bucket.numel}, state.options()));
    part(whole.back(), b).copy_(state);
    sharding_.gather(span_of(whole.back()), bucket.shard_offsets).wait();
  }
  std::vector<SlotTensor> tensors;
  if (sharding_.communicator().rank() != 0) return tensors;
  for (const PlanItem& item : bucket.items) {
    const std::vector<std::string> slots = rule_of(item).slots();
    for (std::size_t s = 0; s < slots.size(); ++s) {
      tensors.push_back({slots[s], static_cast<std::size_t>(item.parameter),
                         flat_.view(whole[s], 0, item).contiguous(at::MemoryFormat::Contiguous)});
    }
  }
  return tensors;
}

void ShardedUpdate::scatter_state(std::size_t b, const std::vector<SlotTensor>& slots) {
  const PlanBucket& bucket = flat_.plan().buckets[b];
  for (std::size_t s = 0; s < state_[b].size(); ++s) {
    const at::Tensor whole = at::zeros({bucket.numel}, state_[b][s].options());
    auto slot = slots.begin();
    for (const PlanItem& item : bucket.items) {
      const std::size_t count = rule_of(item).slots().size();
      if (s < count)
        flat_.view(whole, 0, item).copy_((slot + static_cast<std::ptrdiff_t>(s))->tensor);
      slot += static_cast<std::ptrdiff_t>(count);
    }
    sharding_.communicator().broadcast(span_of(whole), 0).wait();
    state_[b][s].copy_(part(whole, b));
  }
}

}  // namespace trireme
