// SPDX-License-Identifier: Apache-2.0
#include "app/session.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "app/declared.hpp"
#include "app/environment.hpp"
#include "app/find_checkpoint.hpp"
#include "base/inject.hpp"
#include "comm/agree.hpp"
#include "comm/nccl.hpp"
#include "comm/shared_error.hpp"

namespace trireme {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

AugmentOptions augment_options(const Config& config) {
  return {.mean = config.data.mean,
          .std = config.data.std,
          .flip = config.data.flip,
          .crop_padding = config.data.crop_padding,
          .crop_fill = config.data.crop_fill,
          .channels_last = config.model.channels_last,
          .seed = static_cast<std::uint64_t>(config.run.seed)};
}

// How to come to a file that is read; empty: it is none of PyTorch's.
std::string way_from_pickle(const std::filesystem::path& named) {
  const std::string extension = named.extension().string();
  if (extension != ".pt" && extension != ".pth" && extension != ".bin") return {};
  const std::filesystem::path made = std::filesystem::path(named).replace_extension(".safetensors");
  return "; PyTorch's own files (.pt, .pth, .bin) are pickles, which are not read: make a "
         ".safetensors file, of a run with `trainer export RUN " +
         made.string() +
         "`, else in Python:\n"
         "  import torch, safetensors.torch\n"
         "  weights = torch.load(\"" +
         named.string() +
         "\", weights_only=True)\n"
         "  safetensors.torch.save_file({k: v.contiguous().clone() for k, v in weights.items()}, "
         "\"" +
         made.string() + "\")";
}

// What model.init_from names: a checkpoint or a .safetensors file.
std::filesystem::path find_weights(const std::filesystem::path& named) {
  try {
    require_there(named);
    if (named.extension() == ".safetensors") return named;
    return find_checkpoint(named, Wanted::kBestElseNewest);
  } catch (const CheckpointError& error) {
    throw CheckpointError(std::string("model.init_from: ") + error.what() + way_from_pickle(named));
  }
}

void require_same_kind(const Dataset& train, const Dataset* test, const std::string& name) {
  if (test == nullptr || test->spec() == train.spec()) return;
  throw DataError("data set '" + name +
                  "': training and test samples differ in shape, type or number of classes");
}

// Sizes, kinds, and a hash of a few samples of each split: what ranks must have alike.
std::vector<std::string> describe(const TrainerData& data) {
  std::vector<std::string> lines;
  const auto add = [&](const char* split, const Dataset* dataset) {
    if (dataset == nullptr) return;
    const std::int64_t size = dataset->size();
    const std::size_t input_bytes = dataset->spec().input_bytes();
    std::vector<std::byte> bytes(input_bytes + dataset->spec().target_bytes());
    std::ostringstream line;
    line << split << ": " << size << " samples of " << at::IntArrayRef(dataset->spec().input_shape);
    for (const std::int64_t index : {std::int64_t{0}, size / 2, size - 1}) {
      dataset->read(index, std::span(bytes).first(input_bytes),
                    std::span(bytes).subspan(input_bytes));
      line << ", sample " << index << " XXH3 " << XXH3_64bits(bytes.data(), bytes.size());
    }
    lines.push_back(line.str());
  };
  add("training", data.train.get());
  add("validation", data.validation.get());
  add("test", data.test.get());
  return lines;
}

}  // namespace

Session::Session(Config config, const Registry& registry, Communicator& world,
                 const std::function<void(const std::string&)>& warn, RankDevice device)
    : config_(std::move(config)),
      world_(world),
      device_(std::move(device)),
      control_(world.split(0, world.rank())),
      node_(world.split_by_node()),
      statistics_(config_.parallel.sync_batch_norm && world.size() > 1 ? group_on_device()
                                                                       : nullptr),
      task_(make_task(registry, config_)) {
  for (Communicator* communicator : {&world_, control_.get(), node_.get(), statistics_.get()}) {
    if (communicator != nullptr) communicator->set_timeout(milliseconds(config_.run.timeout));
  }
  collectively(*control_, [] { fault_point(FaultPoint::kDataOpen); });
  collectively(*control_, [&] { open_data(registry, warn); });
  collectively(*control_, [&] { require_equal(*control_, "the data", describe(data_)); });
  collectively(*control_, [&] {
    replica_ = make_replica(config_, model_entry(registry, config_.model.name), format_.spec,
                            device_.device);
    if (config_.parallel.sync_batch_norm) require_batch_norm(*replica_.model);
  });
}

void Session::open_data(const Registry& registry,
                        const std::function<void(const std::string&)>& warn) {
  const DatasetEntry& entry = dataset_entry(registry, config_.data.name);
  DatasetContext context{.path = config_.data.path,
                         .split = Split::kTrain,
                         .seed = static_cast<std::uint64_t>(config_.run.seed),
                         .node = node_.get()};
  if (control_->rank() == 0) context.warn = warn;
  const std::shared_ptr<const Dataset> whole = entry.make(config_.data.options, context);
  context.split = Split::kTest;
  data_.test = entry.make(config_.data.options, context);
  TRIREME_ASSERT(whole != nullptr, "data set '" + entry.name + "' made nothing");
  require_same_kind(*whole, data_.test.get(), entry.name);
  data_.train = whole;
  if (config_.data.validation_fraction > 0) {
    HeldOut held = hold_out(whole->size(), config_.data.validation_fraction, context.seed);
    data_.train = subset(whole, std::move(held.train));
    data_.validation = subset(whole, std::move(held.validation));
  }
  format_ = {.spec = whole->spec(),
             .precision = precision_of(config_.train.precision),
             .augment = augment_options(config_),
             .device = device_.device};
  if (format_.spec.input_dtype == DType::kU8)
    Augmenter(format_.spec, format_.augment);  // throws what does not fit
}

void Session::require_fit() {
  collectively(*control_, [&] { try_forward(replica_, task_, format_, *data_.train); });
}

std::optional<InitialWeights> Session::find_initial_weights(
    InitialWeights (*take)(const std::filesystem::path&, Fit, const Replica&)) const {
  if (config_.model.init_from.empty()) return std::nullopt;
  const std::filesystem::path from = find_weights(config_.model.init_from);
  return take(from, config_.model.init_strict ? Fit::kStrict : Fit::kPartial, replica_);
}

std::optional<InitialWeights> Session::check_initial_weights() {
  std::optional<InitialWeights> found;
  collectively(*control_, [&] {
    if (control_->rank() == 0) found = find_initial_weights(trireme::check_initial_weights);
  });
  return found;
}

std::unique_ptr<Communicator> Session::group_on_device() const {
  auto group = world_.split(0, world_.rank());
  if (!device_.device.is_cuda()) return group;
  return make_nccl_communicator(std::move(group), {.device = device_.device.index(),
                                                   .timeout = milliseconds(config_.run.timeout),
                                                   .on_failure = device_.on_failure});
}

std::string Session::key_between_nodes() const {
  if (config_.parallel.compression != "none") return "parallel.compression";
  return config_.parallel.sync_every > 1 ? "parallel.sync_every" : "";
}

void Session::choose_buckets() {
  if (config_.parallel.bucket_mb > 0) {
    if (gradients().size() > 1) buckets_ = given_bucket_size(config_.parallel.bucket_mb);
    return;
  }
  std::vector<std::size_t> sizes;
  for (const NamedTensor& parameter : replica_.trained) sizes.push_back(parameter.tensor.nbytes());
  buckets_ = choose_bucket_size(config_.parallel, gradients(), *control_, sizes);
  config_.parallel.bucket_mb = buckets_->megabytes;
}

Trainer& Session::make_trainer(const TrainingOptions& options) {
  TRIREME_ASSERT(trainer_ == nullptr, "one trainer a session");
  require_fit();
  const auto load = [&] { initial_weights_ = find_initial_weights(load_initial_weights); };
  collectively(*control_, [&] {
    start_equal(replica_, *data_.train, format_, *control_,
                options.from_step_0 ? load : std::function<void()>());
  });
  if (device_.device.is_cuda()) gpus_ = group_on_device();
  choose_buckets();
  if (statistics_ != nullptr) bind_batch_norm(*replica_.model, *statistics_);
  // What is wrong with the configuration all ranks find alike. What one finds alone, such as no
  // memory, ends the job at once: the others are waiting inside, where nobody would come.
  std::string refusal;
  try {
    trainer_ = std::make_unique<Trainer>(
        TrainerParts{.config = config_,
                     .gradients = gradients(),
                     .control = *control_,
                     .replica = replica_,
                     .task = task_,
                     .format = format_,
                     .data = data_,
                     .observer = options.observer != nullptr ? *options.observer : nobody_,
                     .checkpoints = options.checkpoints,
                     .environment = environment(options.environment),
                     .host = options.host,
                     .stop_requested = options.stop_requested,
                     .take_save_request = options.take_save_request});
  } catch (const ConfigError& error) {
    refusal = error.what();
  }
  collectively(*control_, [&] {
    if (!refusal.empty()) throw ConfigError(refusal);
  });
  trainer_->prepare_to_save();
  return *trainer_;
}

std::string Session::environment(const std::string& json) const {
  const std::string with = initial_weights_ ? with_initial_weights(json, *initial_weights_) : json;
  return buckets_ && buckets_->link ? with_link(with, *buckets_->link) : with;
}

EvalEvent Session::evaluate_checkpoint(const std::filesystem::path& checkpoint,
                                       const std::string& split) {
  const StateDocument document = restore_snapshot(checkpoint, replica_, nullptr, *control_);
  const std::shared_ptr<const Dataset> dataset =
      split == "validation" ? data_.validation : data_.test;
  if (dataset == nullptr) {
    throw SharedError(ExitCode::kUsage,
                      "data set '" + config_.data.name + "' has no " + split + " split");
  }
  const EvaluationResult result = evaluate(replica_, task_, format_, dataset,
                                           evaluation_options(config_, world_.size()), *control_);
  return to_event(result, split, document.state.step, document.epoch);
}

}  // namespace trireme
