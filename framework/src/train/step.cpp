// SPDX-License-Identifier: Apache-2.0
#include "train/step.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <sstream>

#include <ATen/core/grad_mode.h>

#include "comm/agree.hpp"
#include "comm/shared_error.hpp"
#include "trireme/model.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

BucketPlan agreed_plan(const Replica& replica, const ParallelConfig& config,
                       Communicator& communicator) {
  const std::vector<PlanParameter> parameters = replica.plan_parameters();
  const PlanLimits limits{.bucket_bytes = static_cast<std::size_t>(config.bucket_mb * 1e6),
                          .edge_bucket_bytes = static_cast<std::size_t>(
                              std::min(config.edge_bucket_mb, config.bucket_mb) * 1e6)};
  BucketPlan plan = make_bucket_plan(parameters, limits, communicator.size());
  require_equal(communicator, "the bucket plan", describe(plan, parameters));
  return plan;
}

// Without the sign of a NaN, which means nothing.
std::string text_of(double loss) { return std::isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf"; }

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& n : named) tensors.push_back(n.tensor);
  return tensors;
}

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
      flat_(replica.trained, agreed_plan(replica, config.parallel, control), gradients),
      sync_(flat_, gradients),
      buffers_(tensors_of(replica.buffers), gradients),
      update_(flat_, replica.groups, replica.group_of, gradients),
      schedule_(config.schedule, 0, sampler.steps_per_epoch(), total_steps) {
  for (const ParameterGroup& group : replica.groups) {
    schedules_.emplace_back(config.schedule, group.duration, sampler.steps_per_epoch(),
                            total_steps);
  }
  context_->seed = static_cast<std::uint64_t>(config.run.seed);
  bind_dropout(*replica.model, *context_);
}

TrainingStep::~TrainingStep() = default;

StepOutcome TrainingStep::run(std::int64_t step, Loader& loader, bool stop) {
  const auto start = Clock::now();
  const double waited_before = loader.waited_ms();
  const auto micro_batches = sampler_.micro_batches(step);
  const std::int64_t samples = sampler_.global_samples(step);
  const double terms = static_cast<double>(samples * format_.spec.targets_per_sample());
  std::int64_t own_samples = 0;
  for (const auto& ids : micro_batches) own_samples += static_cast<std::int64_t>(ids.size());
  const double share = static_cast<double>(own_samples) / static_cast<double>(samples);
  Sums local{.stop = stop ? 1.0 : 0.0};
  context_->step = step;
  bad_samples_.clear();

  sync_.begin_step();
  buffers_.begin_step();
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    accumulate(to_tensors(loader.next(), format_), terms, m + 1 == micro_batches.size(), share,
               local);
  }
  if (micro_batches.empty()) buffers_.start(0);
  sync_.finish_step();
  buffers_.finish_step();
  local.squares = update_.sum_of_squares();
  const Sums all = agree(local);
  if (all.not_finite > 0 || !std::isfinite(all.squares)) report_not_finite(step, local, all);
  const double norm = std::sqrt(all.squares);
  if (config_.train.clip_norm > 0 && norm > config_.train.clip_norm) {
    update_.scale_gradients(config_.train.clip_norm / norm);
  }
  update_.step(rates(step), step + 1);

  StepOutcome outcome{.event = {.step = step + 1,
                                .epoch = static_cast<double>(step + 1) /
                                         static_cast<double>(sampler_.steps_per_epoch()),
                                .loss = all.loss / terms,
                                .metric = all.metric / terms,
                                .lr = config_.optimizer.lr * schedule_.factor(step),
                                .grad_norm = norm,
                                .samples = samples,
                                .step_ms = ms_since(start),
                                .data_wait_ms = loader.waited_ms() - waited_before,
                                .comm_exposed_ms = sync_.last_step().exposed_ms,
                                .comm_overlap = sync_.last_step().overlapped_share()},
                      .stop = all.stop > 0};
  return outcome;
}

void TrainingStep::accumulate(TensorBatch batch, double terms, bool last, double share,
                              Sums& sums) {
  context_->sample_ids = batch.sample_ids;
  const at::Tensor output = replica_.model->forward(batch.input);
  const at::Tensor loss = task_.loss(output, batch.target);
  if (last) {
    buffers_.start(share);
    sync_.expect_last_backward();
  }
  (task_.mean_loss ? loss / terms : loss).backward();
  // Numbers are read last: reading waits for a GPU, which should have the backward pass by then.
  const at::NoGradGuard no_grad;
  sums.metric += task_.metric(output, batch.target).item<double>();
  const auto value = loss.item<double>();
  sums.loss += value;
  if (std::isfinite(value)) return;
  sums.not_finite = 1;
  bad_samples_ = batch.sample_ids;
}

TrainingStep::Sums TrainingStep::agree(Sums local) const {
  std::array<double, 5> numbers{local.loss, local.metric, local.squares, local.not_finite,
                                local.stop};
  control_.all_reduce({numbers.data(), numbers.size(), DType::kF64}).wait();
  return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
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
  throw SharedError(ExitCode::kNumerics,
                    text + " parameters are as after step " + std::to_string(step) +
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
