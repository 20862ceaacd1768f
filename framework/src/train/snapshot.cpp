// SPDX-License-Identifier: Apache-2.0
#include "train/snapshot.hpp"

#include <chrono>
#include <memory>
#include <set>
#include <sstream>

#include <ATen/core/grad_mode.h>
#include <xxhash.h>

#include "base/inject.hpp"
#include "checkpoint/archive.hpp"
#include "comm/agree.hpp"
#include "comm/shared_error.hpp"

namespace trireme {
namespace {

std::string parameter_path(const std::string& name) { return "parameters/" + name; }
std::string buffer_path(const std::string& name) { return "buffers/" + name; }
std::string slot_path(const std::string& slot, const std::string& name) {
  return "optimizer/" + slot + "/" + name;
}
std::string compression_path(const std::string& slot, const std::string& name) {
  return "compression/" + slot + "/" + name;
}

ArrayInfo info_of(const std::string& path, const at::Tensor& tensor) {
  return {.name = path, .dtype = dtype_of(tensor), .shape = tensor.sizes().vec()};
}

// In host memory; the tensor itself where it lies there like that.
at::Tensor row_major(const at::Tensor& tensor) {
  return tensor.detach().contiguous(at::MemoryFormat::Contiguous).cpu();
}

std::span<std::byte> bytes_of(const at::Tensor& row_major) {
  return {static_cast<std::byte*>(row_major.data_ptr()), row_major.nbytes()};
}

void add(CheckpointWriter& writer, const std::string& path, const at::Tensor& tensor) {
  const at::Tensor dense = row_major(tensor);
  writer.add(info_of(path, dense), bytes_of(dense));
}

// Everything but the optimizer's state.
std::vector<NamedTensor> model_tensors(const Replica& replica) {
  std::vector<NamedTensor> tensors;
  for (const auto* kind : {&replica.trained, &replica.frozen}) {
    for (const NamedTensor& t : *kind) tensors.push_back({parameter_path(t.name), t.tensor});
  }
  for (const NamedTensor& t : replica.buffers) tensors.push_back({buffer_path(t.name), t.tensor});
  return tensors;
}

void require_equal_parameters(const Replica& replica, std::int64_t step,
                              Communicator& communicator) {
  std::vector<std::string> hashes;
  for (const NamedTensor& t : model_tensors(replica)) {
    if (!t.tensor.is_floating_point()) continue;  // each rank's own (BufferAverage)
    const at::Tensor dense = row_major(t.tensor);
    hashes.push_back("'" + t.name + "' XXH3 " +
                     std::to_string(XXH3_64bits(dense.data_ptr(), dense.nbytes())));
  }
  collectively(communicator, [&] {
    require_equal(communicator, "the parameters after step " + std::to_string(step), hashes);
  });
}

void read_into(const CheckpointReader& reader, const std::string& path, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const ArrayInfo* info = reader.find(path);
  TRIREME_ASSERT(info != nullptr, "'" + path + "' was checked before");
  const at::Tensor dense = row_major(tensor);
  reader.read(*info, bytes_of(dense));
  if (dense.data_ptr() != tensor.data_ptr()) tensor.copy_(dense);
}

std::string shape_text(const std::vector<std::int64_t>& shape, DType dtype) {
  std::ostringstream text;
  text << name_of(dtype) << " " << at::IntArrayRef(shape);
  return text.str();
}

// All that a checkpoint of this model must hold.
std::vector<ArrayInfo> expected_arrays(const Replica& replica, bool with_optimizer) {
  std::vector<ArrayInfo> expected;
  for (const NamedTensor& t : model_tensors(replica)) expected.push_back(info_of(t.name, t.tensor));
  for (std::size_t i = 0; with_optimizer && i < replica.trained.size(); ++i) {
    const auto& settings = replica.groups[static_cast<std::size_t>(replica.group_of[i])].settings;
    for (const std::string& slot : make_optimizer(settings)->slots()) {
      expected.push_back(
          info_of(slot_path(slot, replica.trained[i].name), replica.trained[i].tensor));
    }
  }
  return expected;
}

void require_same_model(const CheckpointReader& reader, const Replica& replica, bool with_optimizer,
                        const std::filesystem::path& directory) {
  std::string table;
  std::set<std::string> known;
  const auto row = [&](const std::string& name, const std::string& here, const std::string& there) {
    table += "\n  " + name + ": model " + here + ", checkpoint " + there;
  };
  for (const ArrayInfo& want : expected_arrays(replica, with_optimizer)) {
    known.insert(want.name);
    const ArrayInfo* have = reader.find(want.name);
    if (have == nullptr) {
      row(want.name, shape_text(want.shape, want.dtype), "none");
    } else if (have->shape != want.shape || have->dtype != want.dtype) {
      row(want.name, shape_text(want.shape, want.dtype), shape_text(have->shape, have->dtype));
    }
  }
  for (const ArrayInfo& have : reader.arrays()) {
    const bool wanted = !have.name.starts_with("compression/") &&
                        (with_optimizer || !have.name.starts_with("optimizer/"));
    if (wanted && !known.contains(have.name))
      row(have.name, "none", shape_text(have.shape, have.dtype));
  }
  if (!table.empty()) {
    throw CheckpointError(directory.string() +
                          ": belongs to another model, optimizer or precision:" + table +
                          "\nuse the configuration that the checkpoint was made with (config.yaml "
                          "in its run directory)");
  }
}

void broadcast_text(std::string& text, Communicator& communicator) {
  text = communicator.exchange(communicator.rank() == 0 ? text : std::string()).front();
}

}  // namespace

CheckpointEvent save_snapshot(const std::filesystem::path& checkpoints,
                              const StateDocument& document, const Replica& replica,
                              Learner learner, Communicator& communicator) {
  const auto start = std::chrono::steady_clock::now();
  CheckpointEvent event{.step = document.state.step, .path = {}};
  collectively(communicator, [] { fault_point(FaultPoint::kCheckpointBegin); });
  require_equal_parameters(replica, document.state.step, communicator);
  std::unique_ptr<CheckpointWriter> writer;
  collectively(communicator, [&] {
    if (communicator.rank() != 0) return;
    writer = std::make_unique<CheckpointWriter>(checkpoints, document.state.step);
    for (const NamedTensor& t : model_tensors(replica)) add(*writer, t.name, t.tensor);
  });
  std::string failure;  // thrown where all ranks are: the visits in between are collective
  learner.update.visit_state([&](const ShardedUpdate::SlotTensor& slot) {
    if (!failure.empty()) return;
    try {
      add(*writer, slot_path(slot.slot, replica.trained[slot.parameter].name), slot.tensor);
    } catch (const CheckpointError& error) {
      failure = error.what();
    }
  });
  learner.reduction.visit_state(
      [&](const std::string& slot, std::size_t parameter, const at::Tensor& tensor) {
        if (!failure.empty()) return;
        try {
          add(*writer, compression_path(slot, replica.trained[parameter].name), tensor);
        } catch (const CheckpointError& error) {
          failure = error.what();
        }
      });
  collectively(communicator, [&] {
    if (!failure.empty()) throw CheckpointError(failure);
    if (communicator.rank() != 0) return;
    event.path = writer->commit(to_json(document)).string();
    event.size_bytes = writer->size_bytes();
  });
  event.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return event;
}

StateDocument restore_snapshot(const std::filesystem::path& directory, const Replica& replica,
                               const Learner* learner, Communicator& communicator) {
  std::unique_ptr<CheckpointReader> reader;
  std::string text;
  collectively(communicator, [&] {
    fault_point(FaultPoint::kResumeRead);
    if (communicator.rank() != 0) return;
    reader = std::make_unique<CheckpointReader>(directory);
    require_same_model(*reader, replica, learner != nullptr, directory);
    text = reader->state();
    const StateDocument document = parse_state(text, directory.string());
    if (document.state.step != reader->step()) {
      throw CheckpointError(directory.string() + ": the state says step " +
                            std::to_string(document.state.step) + ", the manifest " +
                            std::to_string(reader->step()));
    }
    for (const NamedTensor& t : model_tensors(replica)) read_into(*reader, t.name, t.tensor);
  });
  for (const NamedTensor& t : model_tensors(replica)) broadcast_values(t.tensor, communicator);
  if (learner != nullptr) {
    learner->update.restore_state([&](const ShardedUpdate::SlotTensor& slot) {
      read_into(*reader, slot_path(slot.slot, replica.trained[slot.parameter].name), slot.tensor);
    });
  }
  if (learner != nullptr) {
    learner->reduction.restore_state(
        [&](const std::string& slot, std::size_t parameter, const at::Tensor& tensor) {
          const std::string path = compression_path(slot, replica.trained[parameter].name);
          const ArrayInfo* info = reader->find(path);
          if (info == nullptr || *info != info_of(path, tensor)) return false;
          read_into(*reader, path, tensor);
          return true;
        });
  }
  broadcast_text(text, communicator);
  return parse_state(text, directory.string());
}

}  // namespace trireme
