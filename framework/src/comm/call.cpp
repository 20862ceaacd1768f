// SPDX-License-Identifier: Apache-2.0
#include "comm/call.hpp"

#include <algorithm>
#include <string_view>

#include "trireme/error.hpp"

namespace trireme {
namespace {

std::string_view name_of(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kNodeReduceScatter:
      return "node_reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kExchange:
      return "exchange";
    case Collective::kBarrier:
      return "barrier";
  }
  TRIREME_ASSERT(false, "not a collective");
  return {};
}

bool sums(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kNodeReduceScatter;
}

bool has_offsets(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kNodeReduceScatter ||
         kind == Collective::kAllGather;
}

}  // namespace

void check_arguments(const Call& call, int size) {
  TRIREME_ASSERT(call.data.data != nullptr || call.data.count == 0,
                 describe(call) + ": data is null");
  TRIREME_ASSERT(!sums(call.kind) || call.data.dtype != DType::kU8,
                 describe(call) + ": u8 has no sum");
  TRIREME_ASSERT(call.root >= 0 && call.root < size,
                 describe(call) + ": root is " + std::to_string(call.root) + ", expected 0 to " +
                     std::to_string(size - 1));
  TRIREME_ASSERT(call.wire.type == WireType::kSame || call.data.dtype == DType::kF32,
                 describe(call) + ": only f32 travels at half width");
  if (!has_offsets(call.kind)) return;
  const bool of_ranks = call.kind != Collective::kNodeReduceScatter;
  TRIREME_ASSERT(of_ranks ? call.offsets.size() == static_cast<std::size_t>(size) + 1
                          : call.offsets.size() >= 2,
                 describe(call) + ": " + std::to_string(call.offsets.size()) +
                     " offsets, expected " +
                     (of_ranks ? std::to_string(size + 1) : std::string("two or more")));
  TRIREME_ASSERT(call.offsets.front() == 0 && call.offsets.back() == call.data.count &&
                     std::is_sorted(call.offsets.begin(), call.offsets.end()),
                 describe(call) + ": offsets must ascend from 0 to the count");
}

bool matches(const Call& a, const Call& b) {
  return a.kind == b.kind && a.data.count == b.data.count && a.data.dtype == b.data.dtype &&
         a.offsets == b.offsets && a.root == b.root && a.wire.type == b.wire.type;
}

std::string describe(const Call& call) {
  std::string text = std::string(name_of(call.kind)) + " #" + std::to_string(call.sequence);
  if (call.kind == Collective::kBarrier) return text;
  if (call.kind == Collective::kExchange) {
    return text + " (" + std::to_string(call.bytes.size()) + " bytes)";
  }
  return text + " (" + std::to_string(call.data.count) + " " +
         std::string(trireme::name_of(call.data.dtype)) + ")";
}

std::string describe_rank(int rank, int size) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(size);
}

std::vector<std::size_t> even_offsets(std::size_t count, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> offsets(ranks + 1);
  for (std::size_t r = 0; r <= ranks; ++r) {
    offsets[r] = count / ranks * r + std::min(r, count % ranks);
  }
  return offsets;
}

}  // namespace trireme
