// SPDX-License-Identifier: Apache-2.0
#include "train/step.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "base/activity.hpp"
#include "base/inject.hpp"
#include "comm/agree.hpp"
#include "comm/phase.hpp"
#include "comm/shared_error.hpp"
#include "device/cpu.hpp"
#include "trireme/error.hpp"
#include "trireme/model.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Sharding::Over over(const ParallelConfig& config) {
  return config.shard_over == "world" ? Sharding::Over::kWorld : Sharding::Over::kNode;
}

BucketPlan agreed_plan(const Replica& replica, const ParallelConfig& config, int num_shards,
                       Communicator& communicator) {
  const std::vector<PlanParameter> parameters = replica.plan_parameters();
  const double edge_mb = config.edge_bucket_mb > 0 ? config.edge_bucket_mb : config.bucket_mb / 4;
  const PlanLimits limits{.bucket_bytes = static_cast<std::size_t>(config.bucket_mb * 1e6),
                          .edge_bucket_bytes = static_cast<std::size_t>(edge_mb * 1e6)};
  BucketPlan plan = make_bucket_plan(parameters, limits, num_shards);
  require_equal(communicator, "the bucket plan", describe(plan, parameters));
  return plan;
}

// The parameters leave the memory that they were built in, before more is taken.
FlatParameters make_flat(const Replica& replica, const ParallelConfig& config, int num_shards,
                         Communicator& gradients, Communicator& control) {
  FlatParameters flat(replica.trained, agreed_plan(replica, config, num_shards, control),
                      gradients);
  return_free_memory();
  return flat;
}

// 0 .. 2^32-1: a sum over 2^21 samples is exact in a double, whoever adds what. By the finalizer of
// splitmix64 (Steele, Lea, Flood 2014).
double hash_of_sample(std::int64_t id) {
  auto x = static_cast<std::uint64_t>(id) + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return static_cast<double>((x ^ (x >> 31U)) >> 32U);
}

// Without the sign of a NaN, which means nothing.
std::string text_of(double loss) { return std::isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf"; }

}  // namespace

TrainingStep::TrainingStep(const Config& config, Replica& replica, const Task& task,
                           InputFormat format, const Sampler& sampler, std::int64_t total_steps,
                           Communicator& gradients, Communicator& control)
    : config_(config),
      replica_(replica),
      task_(task),
      format_(std::move(format)),
      sampler_(sampler),
      control_(control),
      rank_(gradients.rank()),
      context_(std::make_unique<ForwardContext>()),
      period_(gradients.placement().num_nodes > 1 ? config.parallel.sync_every : 1, total_steps),
      sharding_(gradients, over(config.parallel),
                period_.nodes_part() ? Sharding::Sums::kApart : Sharding::Sums::kTogether),
      flat_(make_flat(replica, config.parallel, sharding_.num_shards(), gradients, control)),
      reduction_(make_reduction(config.parallel, flat_, sharding_)),
      sync_(flat_, *reduction_),
      buffers_(buffers_to_average(replica), gradients),
      update_(flat_, replica.groups, replica.group_of, sharding_),
      schedule_(config.schedule, 0, sampler.steps_per_epoch(), total_steps) {
  for (const ParameterGroup& group : replica.groups) {
    schedules_.emplace_back(config.schedule, group.duration, sampler.steps_per_epoch(),
                            total_steps);
  }
  if (period_.nodes_part()) average_ = std::make_unique<NodeAverage>(flat_, update_, sharding_);
  if (period_.nodes_part() && config.train.global_batch % gradients.size() != 0) {
    throw ConfigError(
        "parallel.sync_every > 1 wants equally many samples on every rank; expected "
        "train.global_batch to be a multiple of " +
        std::to_string(gradients.size()));
  }
  context_->seed = static_cast<std::uint64_t>(config.run.seed);
  bind_dropout(*replica.model, *context_);
}

TrainingStep::~TrainingStep() = default;

StepOutcome TrainingStep::run(std::int64_t step, Loader& loader, StepRequests requests) {
  const auto start = Clock::now();
  enter_step(step + 1);
  enter_phase(Phase::kInput);
  const double waited_before = loader.waited_ms();
  const std::uint64_t sent_before = sharding_.communicator().bytes_sent();
  const auto micro_batches = sampler_.micro_batches(step);
  const std::int64_t samples = sampler_.global_samples(step);
  const double terms = static_cast<double>(samples * format_.spec.targets_per_sample());
  std::int64_t own_samples = 0;
  for (const auto& ids : micro_batches) own_samples += static_cast<std::int64_t>(ids.size());
  const double share = static_cast<double>(own_samples) / static_cast<double>(samples);
  Sums local{.stop = requests.stop ? 1.0 : 0.0,
             .save = requests.save ? 1.0 : 0.0,
             .write_failed = requests.write_failed ? 1.0 : 0.0};
  context_->step = step;
  bad_samples_.clear();

  const std::vector<double> rates = this->rates(step);
  if (config_.train.update_in_backward) {
    sync_.begin_step(step, [&](std::size_t bucket) { update_.update(bucket, rates, step + 1); });
  } else {
    sync_.begin_step(step);
  }
  buffers_.begin_step();
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    enter_phase(Phase::kInput);
    fault_point(FaultPoint::kDataNext);
    accumulate(to_tensors(loader.next(), format_), terms, m + 1 == micro_batches.size(), share,
               local);
  }
  enter_phase(Phase::kGradients);
  if (micro_batches.empty()) buffers_.start(0);
  sync_.finish_step();
  in_phase("averaging buffers", [&] { buffers_.finish_step(); });
  enter_phase(Phase::kAgreement);
  const SquaredNorm squared_norm = update_.squared_norm();
  local.squares = squared_norm.sum;
  // So small that no sum over ranks is infinite: all ranks then decide the same.
  const double most = std::numeric_limits<double>::max() / control_.size();
  local.bad_gradients = squared_norm.is_finite && squared_norm.sum.value() <= most ? 0 : 1;
  local.saturated = static_cast<double>(reduction_->counts().saturated);
  local.underflowed = static_cast<double>(reduction_->counts().underflowed);
  flat_.require_unwritten();
  fault_point(FaultPoint::kAgree);
  // All ranks have finished backward.
  const Sums all = in_phase("agreeing on loss and norm", [&] { return agree(local); });
  const double norm = std::sqrt(all.squares.value());
  if (all.not_finite > 0 || all.bad_gradients > 0) report_not_finite(step, local, all);
  enter_phase(Phase::kUpdate);
  fault_point(FaultPoint::kUpdate);
  if (config_.train.clip_norm > 0 && norm > config_.train.clip_norm) {
    update_.scale_gradients(config_.train.clip_norm / norm);
  }
  if (config_.train.update_in_backward) {
    update_.gather();
  } else {
    update_.step(rates, step + 1);
  }
  fault_point(FaultPoint::kUpdateDone,
              [&] { flat_.values(0).view(at::kByte).narrow(0, 0, 1).bitwise_xor_(1); });
  const bool together = period_.together_after(step + 1) || all.stop > 0;
  if (average_ && together) average_->average();

  StepOutcome outcome{
      .event = {.step = step + 1,
                .epoch =
                    static_cast<double>(step + 1) / static_cast<double>(sampler_.steps_per_epoch()),
                .loss = all.loss / terms,
                .metric = all.metric / terms,
                .lr = config_.optimizer.lr * schedule_.factor(step),
                .grad_norm = norm,
                .samples = samples,
                .sample_hash = static_cast<std::int64_t>(all.sample_hash),
                .step_ms = ms_since(start),
                .data_wait_ms = loader.waited_ms() - waited_before,
                .comm_exposed_ms = sync_.last_step().exposed_ms + update_.waited_ms() +
                                   (average_ && together ? average_->last_ms() : 0),
                .comm_overlap = sync_.last_step().overlapped_share(),
                .comm_sent_bytes =
                    static_cast<std::int64_t>(sharding_.communicator().bytes_sent() - sent_before),
                .comm_saturated = static_cast<std::int64_t>(all.saturated),
                .comm_underflowed = static_cast<std::int64_t>(all.underflowed)},
      .stop = all.stop > 0,
      .save = all.save > 0,
      .write_failed = all.write_failed > 0,
      .together = together};
  return outcome;
}

void TrainingStep::accumulate(TensorBatch batch, double terms, bool last, double share,
                              Sums& sums) {
  enter_phase(Phase::kForward);
  context_->sample_ids = batch.sample_ids;
  for (const std::int64_t id : batch.sample_ids) sums.sample_hash += hash_of_sample(id);
  const at::Tensor output = replica_.model->forward(batch.input);
  at::Tensor loss = task_.loss(output, batch.target);
  fault_point(FaultPoint::kForward,
              [&] { loss = loss * std::numeric_limits<double>::quiet_NaN(); });
  if (last) {
    buffers_.start(share);
    sync_.expect_last_backward();
  }
  enter_phase(Phase::kBackward);
  fault_point(FaultPoint::kBackward);
  // Of the mean over this node's samples where it trains for itself: nodes have equally many.
  backward(loss * (sharding_.num_sums() / (task_.mean_loss ? terms : 1)));
  // Numbers are read last: reading waits for a GPU, which should have the backward pass by then.
  const at::NoGradGuard no_grad;
  sums.metric += task_.metric(output, batch.target).item<double>();
  const auto value = loss.item<double>();
  sums.loss += value;
  if (std::isfinite(value)) return;
  sums.not_finite = 1;
  bad_samples_ = batch.sample_ids;
}

void TrainingStep::backward(const at::Tensor& loss) const {
  try {
    loss.backward();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (!config_.train.update_in_backward || text.find("inplace operation") == std::string::npos)
      throw;
    throw ConfigError(
        "backward needs a parameter that train.update_in_backward has updated already: the model "
        "uses it without a gradient, too; set train.update_in_backward: false");
  }
}

TrainingStep::Sums TrainingStep::agree(Sums local) const {
  std::array<double, 10> numbers{local.loss,          local.metric,    local.not_finite,
                                 local.stop,          local.save,      local.write_failed,
                                 local.bad_gradients, local.saturated, local.underflowed,
                                 local.sample_hash};
  ExactSum::Limbs& limbs = local.squares.limbs();
  Request sum = control_.all_reduce({numbers.data(), numbers.size(), DType::kF64});
  // Of this node's gradient where it trains for itself. (A GPU is a node of one rank.)
  Communicator& summing = sharding_.num_sums() > 1 ? sharding_.summing() : control_;
  Request squares;
  if (summing.size() > 1) squares = summing.all_reduce({limbs.data(), limbs.size(), DType::kI64});
  sum.wait();
  squares.wait();
  return {.loss = numbers[0],
          .metric = numbers[1],
          .not_finite = numbers[2],
          .stop = numbers[3],
          .save = numbers[4],
          .write_failed = numbers[5],
          .bad_gradients = numbers[6],
          .saturated = numbers[7],
          .underflowed = numbers[8],
          .sample_hash = numbers[9],
          .squares = local.squares};
}

void TrainingStep::report_not_finite(std::int64_t step, const Sums& local, const Sums& all) const {
  std::ostringstream own;
  if (local.not_finite > 0) {
    own << " rank " << rank_ << ": loss " << text_of(local.loss) << " for samples";
    for (std::size_t i = 0; i < bad_samples_.size() && i < 8; ++i) own << " " << bad_samples_[i];
    if (bad_samples_.size() > 8) own << " ... (" << bad_samples_.size() << " in this micro-batch)";
  }
  std::string text = "step " + std::to_string(step + 1) + ":";
  if (all.not_finite == 0) text += " the gradient is not finite, though the loss is;";
  for (const std::string& line : control_.exchange(own.str())) {
    if (!line.empty()) text += line + ";";
  }
  throw SharedError(
      ExitCode::kNumerics,
      text +
          (config_.train.update_in_backward
               ? std::string(" the update has taken it in (train.update_in_backward): "
                             "go on from a checkpoint")
               : " parameters are as after step " + std::to_string(step)) +
          "; lower optimizer.lr, set train.clip_norm, or look at these samples");
}

std::vector<double> TrainingStep::rates(std::int64_t step) const {
  std::vector<double> rates;
  for (std::size_t g = 0; g < schedules_.size(); ++g) {
    rates.push_back(replica_.groups[g].settings.lr * schedules_[g].factor(step));
  }
  return rates;
}

}  // namespace trireme
