// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_collectives.hpp"

#include <span>
#include <utility>

#include "comm/sum.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Offsets = std::vector<std::size_t>;  // [size + 1], elements
using Stage = MpiOperation::Stage;
using Stages = std::vector<Stage>;

template <class Body>
void for_each_other(const MpiOperation& op, const Body& body) {
  // Beginning after the own rank, so that not all ranks send to rank 0 first.
  for (int i = 1; i < op.size(); ++i) body((op.rank() + i) % op.size());
}

std::size_t length(const Offsets& offsets, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return offsets[r + 1] - offsets[r];
}

std::size_t begin(const Offsets& offsets, int rank) {
  return offsets[static_cast<std::size_t>(rank)];
}

// What the ranks have for elements [first, first + count) of the data: the own part where it lies,
// the others' side by side in scratch.
struct Parts {
  std::size_t first = 0;
  std::size_t count = 0;
  std::vector<std::byte*> data = {};  // [rank]
};

void receive_parts(MpiOperation& op, Parts& parts) {
  const std::size_t part_bytes = op.bytes(parts.count);
  parts.data.assign(static_cast<std::size_t>(op.size()), op.element(parts.first));
  if (part_bytes == 0 || op.size() == 1) return;
  std::byte* scratch = op.scratch(part_bytes * static_cast<std::size_t>(op.size() - 1));
  for_each_other(op, [&](int rank) {
    parts.data[static_cast<std::size_t>(rank)] = scratch;
    op.messages().receive(rank, scratch, part_bytes);
    scratch += part_bytes;
  });
}

void sum_parts(const MpiOperation& op, const Parts& parts) {
  const std::vector<const std::byte*> data(parts.data.begin(), parts.data.end());
  sum_in_order(op.call().data.dtype, data, op.element(parts.first), parts.count);
}

void add_reduce_scatter(Stages& stages, const Offsets& offsets) {
  const auto parts = std::make_shared<Parts>();
  stages.push_back([parts, offsets](MpiOperation& op) {
    parts->first = begin(offsets, op.rank());
    parts->count = length(offsets, op.rank());
    receive_parts(op, *parts);
    for_each_other(op, [&](int rank) {
      op.messages().send(rank, op.element(begin(offsets, rank)), op.bytes(length(offsets, rank)));
    });
  });
  stages.push_back([parts](MpiOperation& op) { sum_parts(op, *parts); });
}

void add_all_gather(Stages& stages, const Offsets& offsets) {
  stages.push_back([offsets](MpiOperation& op) {
    for_each_other(op, [&](int rank) {
      op.messages().receive(rank, op.element(begin(offsets, rank)),
                            op.bytes(length(offsets, rank)));
    });
    for_each_other(op, [&](int rank) {
      op.messages().send(rank, op.element(begin(offsets, op.rank())),
                         op.bytes(length(offsets, op.rank())));
    });
  });
}

// Two exchanges of small messages cost twice the latency of one.
void add_small_all_reduce(Stages& stages) {
  const auto parts = std::make_shared<Parts>();
  stages.push_back([parts](MpiOperation& op) {
    parts->count = op.call().data.count;
    receive_parts(op, *parts);
    for_each_other(
        op, [&](int rank) { op.messages().send(rank, op.element(0), op.bytes(parts->count)); });
  });
  stages.push_back([parts](MpiOperation& op) { sum_parts(op, *parts); });
}

// Ranks counted from the root form a binomial tree: the parent lacks the lowest bit that is set.
void add_broadcast(Stages& stages) {
  const auto real_rank = [](const MpiOperation& op, int from_root) {
    return (from_root + op.call().root) % op.size();
  };
  const auto from_root = [](const MpiOperation& op) {
    return (op.rank() - op.call().root + op.size()) % op.size();
  };
  stages.push_back([=](MpiOperation& op) {
    const int me = from_root(op);
    if (me == 0) return;
    op.messages().receive(real_rank(op, me & (me - 1)), op.element(0),
                          op.bytes(op.call().data.count));
  });
  stages.push_back([=](MpiOperation& op) {
    const int me = from_root(op);
    for (int bit = 1; bit < op.size() && (me & bit) == 0; bit <<= 1) {
      if (me + bit >= op.size()) break;
      op.messages().send(real_rank(op, me + bit), op.element(0), op.bytes(op.call().data.count));
    }
  });
}

void add_exchange(Stages& stages) {
  stages.push_back([](MpiOperation& op) {
    const auto size = static_cast<std::size_t>(op.size());
    op.text_bytes.assign(size, op.call().bytes.size());
    const auto own = std::as_bytes(std::span(op.text_bytes)).data() +
                     static_cast<std::size_t>(op.rank()) * sizeof(std::uint64_t);
    for_each_other(op, [&](int rank) {
      auto* length = reinterpret_cast<std::byte*>(&op.text_bytes[static_cast<std::size_t>(rank)]);
      op.messages().receive(rank, length, sizeof(std::uint64_t));
      op.messages().send(rank, own, sizeof(std::uint64_t));
    });
  });
  stages.push_back([](MpiOperation& op) {
    op.texts.resize(static_cast<std::size_t>(op.size()));
    const std::string& own = op.call().bytes;
    op.texts[static_cast<std::size_t>(op.rank())] = own;
    for_each_other(op, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      op.texts[r].resize(op.text_bytes[r]);
      op.messages().receive(rank, reinterpret_cast<std::byte*>(op.texts[r].data()),
                            op.text_bytes[r]);
      op.messages().send(rank, reinterpret_cast<const std::byte*>(own.data()), own.size());
    });
  });
}

}  // namespace

Stages stages_of(const Call& call, int size, std::size_t gather_limit_bytes) {
  Stages stages;
  switch (call.kind) {
    case Collective::kAllReduce:
      if (call.data.size_bytes() <= gather_limit_bytes) {
        add_small_all_reduce(stages);
      } else {
        const Offsets offsets = even_offsets(call.data.count, size);
        add_reduce_scatter(stages, offsets);
        add_all_gather(stages, offsets);
      }
      break;
    case Collective::kReduceScatter:
      add_reduce_scatter(stages, call.offsets);
      break;
    case Collective::kAllGather:
      add_all_gather(stages, call.offsets);
      break;
    case Collective::kBroadcast:
      add_broadcast(stages);
      break;
    case Collective::kExchange:
      add_exchange(stages);
      break;
    case Collective::kBarrier:
      stages.push_back([](MpiOperation& op) {
        for_each_other(op, [&](int rank) { op.messages().signal(rank); });
      });
      break;
  }
  return stages;
}

}  // namespace trireme
