// SPDX-License-Identifier: Apache-2.0
#include "train/snapshot.hpp"

#include <memory>
#include <set>
#include <sstream>

#include <ATen/core/grad_mode.h>

#include "base/inject.hpp"
#include "comm/shared_error.hpp"

namespace trireme {

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

at::Tensor row_major(const at::Tensor& tensor) {
  return tensor.detach().contiguous(at::MemoryFormat::Contiguous).cpu();
}

namespace {

std::span<std::byte> bytes_of(const at::Tensor& row_major) {
  return {static_cast<std::byte*>(row_major.data_ptr()), row_major.nbytes()};
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
