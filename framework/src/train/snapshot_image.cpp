// SPDX-License-Identifier: Apache-2.0
#include "train/snapshot_image.hpp"

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "base/inject.hpp"
#include "comm/agree.hpp"
#include "comm/shared_error.hpp"
#include "train/memory_order.hpp"

namespace trireme {
namespace {

std::int64_t hash_of(const at::Tensor& dense) {
  const at::Tensor host = dense.cpu();
  return static_cast<std::int64_t>(XXH3_64bits(host.const_data_ptr(), host.nbytes()));
}

std::string hash_text(const std::string& name, std::int64_t hash) {
  return "'" + name + "' XXH3 " + std::to_string(static_cast<std::uint64_t>(hash));
}

std::string pack(const std::vector<std::uint64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::uint64_t)};
}

std::vector<std::uint64_t> unpack(const std::string& text) {
  std::vector<std::uint64_t> numbers(text.size() / sizeof(std::uint64_t));
  std::memcpy(numbers.data(), text.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

// Tensors that each rank has for itself.
std::vector<NamedTensor> own_tensors(const Replica& replica) {
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& t : replica.frozen) tensors.push_back({parameter_path(t.name), t.tensor});
  for (const NamedTensor& t : replica.buffers) tensors.push_back({buffer_path(t.name), t.tensor});
  return tensors;
}

}  // namespace

// What of a parameter lies in one shard.
struct SnapshotImage::Run {
  std::size_t bucket = 0, parameter = 0;
  std::int64_t begin = 0, end = 0;  // elements of the bucket
  std::int64_t offset = 0;          // of the parameter in it
  bool own = false;                 // this rank's, of those that share the parameters
};

SnapshotImage::SnapshotImage(const Replica& replica, Learner learner, std::size_t state_bytes,
                             Communicator& control)
    : replica_(replica),
      learner_(learner),
      control_(control),
      flat_(learner.update.flat()),
      sharing_(learner.update.sharding().communicator().placement()),
      sharers_(control.split(sharing_.node, control.rank())),
      node_(control.split(control.placement().node, control.rank())) {
  lay_out(arrays(), state_bytes);
  collectively(control_, [&] {
    if (control_.placement().node == 0) image_ = node_->allocate_shared(image_bytes_);
  });
  if (control_.rank() == 0) layout_->begin({image_.data(), image_.size_bytes()});
  collectively(control_, [&] { copy_own(); });  // touches each page where it will be written
}

void SnapshotImage::lay_out(std::vector<ArrayInfo> arrays, std::size_t state_bytes) {
  std::vector<std::uint64_t> offsets;  // [array], then the file's size
  collectively(control_, [&] {
    if (control_.rank() != 0) return;
    layout_ = std::make_unique<ArchiveLayout>(arrays, state_bytes);
    for (std::size_t i = 0; i < arrays.size(); ++i) offsets.push_back(layout_->offset_of(i));
    offsets.push_back(layout_->size_bytes());
  });
  offsets = unpack(control_.exchange(pack(offsets)).front());
  image_bytes_ = offsets.back();
  for (std::size_t i = 0; i < arrays.size(); ++i) offsets_[arrays[i].name] = offsets[i];
}

// In one order on all ranks; what compression keeps is known to rank 0 alone, and comes last.
std::vector<ArrayInfo> SnapshotImage::arrays() {
  std::vector<ArrayInfo> arrays;
  for (std::size_t p = 0; p < replica_.trained.size(); ++p) {
    const NamedTensor& t = replica_.trained[p];
    arrays.push_back(info_of(parameter_path(t.name), t.tensor));
    for (const std::string& slot : learner_.update.slots_of(p))
      arrays.push_back(info_of(slot_path(slot, t.name), t.tensor));
  }
  for (const NamedTensor& t : own_tensors(replica_)) arrays.push_back(info_of(t.name, t.tensor));
  learner_.reduction.visit_state(
      [&](const std::string& slot, std::size_t parameter, const at::Tensor& tensor) {
        arrays.push_back(info_of(compression_path(slot, replica_.trained[parameter].name), tensor));
      });
  return arrays;
}

void SnapshotImage::fill(std::int64_t step, const std::string& state) {
  collectively(control_, [] { fault_point(FaultPoint::kCheckpointBegin); });
  require_equal_state(step);
  collectively(control_, [&] {
    copy_own();
    if (control_.rank() == 0) layout_->set_state({image_.data(), image_bytes_}, step, state);
  });
  // What travels to rank 0, which alone is called.
  if (!has_optimizer()) {
    learner_.update.visit_state([&](const ShardedUpdate::SlotTensor& slot) {
      copy_whole(slot_path(slot.slot, replica_.trained[slot.parameter].name), slot.tensor);
    });
  }
  learner_.reduction.visit_state(
      [&](const std::string& slot, std::size_t parameter, const at::Tensor& tensor) {
        copy_whole(compression_path(slot, replica_.trained[parameter].name), tensor);
      });
}

// Whether the ranks that share the parameters have all of the optimizer's state.
bool SnapshotImage::has_optimizer() const { return learner_.update.sharding().whole_on_node(); }

template <class Visit>
void SnapshotImage::visit_runs(const Visit& visit) const {
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
    const PlanBucket& bucket = flat_.plan().buckets[b];
    const Part own = part_of(bucket.shard_offsets, sharing_.local_rank, sharing_.local_size);
    for (const PlanItem& item : bucket.items) {
      const auto parameter = static_cast<std::size_t>(item.parameter);
      const std::int64_t end = item.offset + flat_.parameters()[parameter].tensor.numel();
      for (std::size_t s = 0; s + 1 < bucket.shard_offsets.size(); ++s) {
        const auto shard_begin = static_cast<std::int64_t>(bucket.shard_offsets[s]);
        const auto shard_end = static_cast<std::int64_t>(bucket.shard_offsets[s + 1]);
        const Run run{
            .bucket = b,
            .parameter = parameter,
            .begin = std::max(item.offset, shard_begin),
            .end = std::min(end, shard_end),
            .offset = item.offset,
            .own = bucket.shard_offsets[s] >= own.begin && bucket.shard_offsets[s + 1] <= own.end};
        if (run.begin < run.end) visit(run);
      }
    }
  }
}

// One hash a run: each by one rank of those that share it, then compared between them.
void SnapshotImage::require_equal_state(std::int64_t step) const {
  std::vector<std::string> items;
  if (sharing_.num_nodes > 1) {
    std::vector<std::int64_t> hashes;
    std::vector<std::string> names;
    visit_runs([&](const Run& run) {
      names.push_back(parameter_path(flat_.parameters()[run.parameter].name));
      hashes.push_back(run.own ? hash_of(flat_.values(run.bucket).slice(0, run.begin, run.end))
                               : 0);
    });
    sharers_->all_reduce({hashes.data(), hashes.size(), DType::kI64}).wait();
    for (std::size_t i = 0; i < hashes.size(); ++i) items.push_back(hash_text(names[i], hashes[i]));
  }
  for (const NamedTensor& t : own_tensors(replica_)) {
    if (!t.tensor.is_floating_point()) continue;  // each rank's own (BufferAverage)
    items.push_back(hash_text(t.name, hash_of(row_major(t.tensor))));
  }
  collectively(control_, [&] {
    require_equal(control_, "the parameters after step " + std::to_string(step), items);
  });
}

void SnapshotImage::copy_own() {
  if (sharing_.node != 0) return;
  const ShardedUpdate& update = learner_.update;
  visit_runs([&](const Run& run) {
    if (!run.own) return;
    const std::string& name = flat_.parameters()[run.parameter].name;
    copy_run(run, flat_.values(run.bucket), 0, parameter_path(name));
    if (!has_optimizer()) return;
    const auto part_begin = static_cast<std::int64_t>(
        update.sharding().part(flat_.plan().buckets[run.bucket].shard_offsets).begin);
    const std::vector<std::string> slots = update.slots_of(run.parameter);
    for (std::size_t s = 0; s < slots.size(); ++s)
      copy_run(run, update.state(run.bucket)[s], part_begin, slot_path(slots[s], name));
  });
  // Dealt out by bytes.
  const std::vector<NamedTensor> tensors = own_tensors(replica_);
  std::size_t total = 1, before = 0;
  for (const NamedTensor& t : tensors) total += t.tensor.nbytes();
  for (const NamedTensor& t : tensors) {
    const std::size_t rank = before * static_cast<std::size_t>(sharing_.local_size) / total;
    // What is not equal on all ranks is rank 0's.
    const bool own = t.tensor.is_floating_point()
                         ? rank == static_cast<std::size_t>(sharing_.local_rank)
                         : sharing_.local_rank == 0;
    if (own) copy_whole(t.name, t.tensor);
    before += t.tensor.nbytes();
  }
}

// flat: element 0 is element flat_begin of the bucket.
void SnapshotImage::copy_run(const Run& run, const at::Tensor& flat, std::int64_t flat_begin,
                             const std::string& path) {
  const at::Tensor& shape = flat_.parameters()[run.parameter].tensor;
  const at::Tensor elements = flat.slice(0, run.begin - flat_begin, run.end - flat_begin).cpu();
  MemoryOrder(shape.sizes(), shape.strides())
      .copy(static_cast<const std::byte*>(elements.const_data_ptr()), run.begin - run.offset,
            run.end - run.begin, elements.element_size(), place_of(path));
}

void SnapshotImage::copy_whole(const std::string& path, const at::Tensor& tensor) {
  const at::Tensor dense = row_major(tensor);
  if (dense.nbytes() > 0) std::memcpy(place_of(path), dense.const_data_ptr(), dense.nbytes());
}

std::byte* SnapshotImage::place_of(const std::string& path) {
  const auto found = offsets_.find(path);
  TRIREME_ASSERT(found != offsets_.end(), "'" + path + "' was not laid out");
  return image_.data() + found->second;
}

}  // namespace trireme
