// SPDX-License-Identifier: Apache-2.0
#include "parallel/bucket_plan.hpp"

#include <algorithm>
#include <sstream>
#include <tuple>

#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;

std::int64_t aligned(std::int64_t elements, DType dtype) {
  const auto step = kAlignmentBytes / static_cast<std::int64_t>(size_of(dtype));
  return (elements + step - 1) / step * step;
}

std::size_t size_bytes(const PlanParameter& parameter) {
  return static_cast<std::size_t>(parameter.numel) * size_of(parameter.dtype);
}

// Cuts parameters of one kind, in order of reduction, into runs: a small one at each end, the
// others up to the limit.
std::vector<std::vector<int>> cut(const std::vector<int>& order,
                                  std::span<const PlanParameter> parameters,
                                  const PlanLimits& limits) {
  std::size_t tail = order.size();
  for (std::size_t bytes = 0; tail > 0; --tail) {
    bytes += size_bytes(parameters[static_cast<std::size_t>(order[tail - 1])]);
    if (bytes > limits.edge_bucket_bytes) break;
  }
  std::vector<std::vector<int>> runs;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t more = size_bytes(parameters[static_cast<std::size_t>(order[i])]);
    const std::size_t limit = runs.size() <= 1 ? limits.edge_bucket_bytes : limits.bucket_bytes;
    if (runs.empty() || bytes + more > limit || i == tail) {
      runs.emplace_back();
      bytes = 0;
    }
    runs.back().push_back(order[i]);
    bytes += more;
  }
  return runs;
}

// Whole parameters to shards: heaviest first, each to the least loaded one.
std::vector<int> deal_owners(std::span<const PlanParameter> parameters, int num_shards) {
  std::vector<int> heaviest;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].whole) heaviest.push_back(static_cast<int>(i));
  }
  std::stable_sort(heaviest.begin(), heaviest.end(), [&](int a, int b) {
    return parameters[static_cast<std::size_t>(a)].cost >
           parameters[static_cast<std::size_t>(b)].cost;
  });
  std::vector<int> owner(parameters.size(), -1);
  std::vector<double> load(static_cast<std::size_t>(num_shards), 0);
  for (const int parameter : heaviest) {
    const auto least = std::min_element(load.begin(), load.end());
    owner[static_cast<std::size_t>(parameter)] = static_cast<int>(least - load.begin());
    *least += parameters[static_cast<std::size_t>(parameter)].cost;
  }
  return owner;
}

// The last place up to `element` where a shard may begin.
std::int64_t at_block(const PlanBucket& bucket, std::int64_t element) {
  const auto next =
      std::upper_bound(bucket.items.begin(), bucket.items.end(), element,
                       [](std::int64_t at, const PlanItem& item) { return at < item.offset; });
  const std::int64_t begin = std::prev(next)->offset;
  return begin + (element - begin) / kShardBlock * kShardBlock;
}

PlanBucket lay_out(std::vector<int> run, std::span<const PlanParameter> parameters,
                   const std::vector<int>& owner, int num_shards) {
  const auto of = [&](int i) -> const PlanParameter& {
    return parameters[static_cast<std::size_t>(i)];
  };
  PlanBucket bucket{.dtype = of(run.front()).dtype,
                    .whole = of(run.front()).whole,
                    .items = {},
                    .shard_offsets = {}};
  std::stable_sort(run.begin(), run.end(), [&](int a, int b) {
    return std::pair(owner[static_cast<std::size_t>(a)], of(a).group) <
           std::pair(owner[static_cast<std::size_t>(b)], of(b).group);
  });
  std::vector<std::int64_t> owned(static_cast<std::size_t>(num_shards), 0);
  for (const int parameter : run) {
    bucket.items.push_back({parameter, bucket.numel});
    const std::int64_t length = aligned(of(parameter).numel, bucket.dtype);
    bucket.numel += length;
    if (bucket.whole)
      owned[static_cast<std::size_t>(owner[static_cast<std::size_t>(parameter)])] += length;
  }
  bucket.shard_offsets.push_back(0);
  for (int shard = 0; shard < num_shards; ++shard) {
    const std::int64_t even = at_block(bucket, bucket.numel * (shard + 1) / num_shards);
    const std::size_t end =
        bucket.whole ? bucket.shard_offsets.back() +
                           static_cast<std::size_t>(owned[static_cast<std::size_t>(shard)])
                     : static_cast<std::size_t>(shard + 1 < num_shards ? even : bucket.numel);
    bucket.shard_offsets.push_back(end);
  }
  return bucket;
}

}  // namespace

BucketPlan make_bucket_plan(std::span<const PlanParameter> parameters, const PlanLimits& limits,
                            int num_shards) {
  TRIREME_ASSERT(num_shards >= 1, "a plan needs a shard");
  const std::vector<int> owner = deal_owners(parameters, num_shards);
  using Kind = std::tuple<DType, bool>;
  std::vector<std::pair<Kind, std::vector<int>>> kinds;
  for (auto i = static_cast<int>(parameters.size()) - 1; i >= 0; --i) {
    const auto& parameter = parameters[static_cast<std::size_t>(i)];
    if (parameter.numel == 0) continue;
    const Kind kind{parameter.dtype, parameter.whole};
    auto found =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == kind; });
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {kind, {}});
    found->second.push_back(i);
  }
  // A bucket is ready when its earliest parameter is; that orders the buckets of different kinds.
  std::vector<std::pair<int, std::vector<int>>> runs;
  for (const auto& [kind, order] : kinds) {
    for (auto& run : cut(order, parameters, limits)) runs.emplace_back(-run.back(), std::move(run));
  }
  std::sort(runs.begin(), runs.end());
  BucketPlan plan;
  for (auto& [ready, run] : runs)
    plan.buckets.push_back(lay_out(std::move(run), parameters, owner, num_shards));
  return plan;
}

std::vector<std::string> describe(const BucketPlan& plan,
                                  std::span<const PlanParameter> parameters) {
  std::vector<std::string> lines;
  for (const PlanBucket& bucket : plan.buckets) {
    std::ostringstream line;
    line << name_of(bucket.dtype) << (bucket.whole ? " whole [" : " [");
    for (const std::size_t offset : bucket.shard_offsets) line << " " << offset;
    line << " ]";
    for (const PlanItem& item : bucket.items) {
      line << " " << parameters[static_cast<std::size_t>(item.parameter)].name << "@"
           << item.offset;
    }
    lines.push_back(line.str());
  }
  return lines;
}

}  // namespace trireme
