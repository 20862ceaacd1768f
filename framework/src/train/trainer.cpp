// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/activity.hpp"
#include "base/inject.hpp"
#include "checkpoint/archive.hpp"
#include "comm/phase.hpp"
#include "comm/shared_error.hpp"
#include "config/read.hpp"
#include "train/rank_report.hpp"

namespace trireme {
namespace {

std::int64_t rounded_steps(double epochs, std::int64_t steps_per_epoch) {
  const double steps = std::round(epochs * static_cast<double>(steps_per_epoch));
  return steps < 9e18 ? static_cast<std::int64_t>(steps) : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

SamplerOptions sampler_options(const Config& config, std::int64_t train_samples,
                               const Communicator& communicator) {
  return {.num_samples = train_samples,
          .global_batch = config.train.global_batch,
          .micro_batch = config.train.micro_batch,
          .joint_micro_batches = config.parallel.sync_batch_norm,
          .seed = static_cast<std::uint64_t>(config.run.seed),
          .shuffle = config.data.shuffle,
          .drop_last = config.data.drop_last,
          .rank = communicator.rank(),
          .world_size = communicator.size()};
}

RunLength run_length(const Config& config, std::int64_t train_samples) {
  const Sampler sampler({.num_samples = train_samples,
                         .global_batch = config.train.global_batch,
                         .drop_last = config.data.drop_last});
  RunLength length{.steps_per_epoch = sampler.steps_per_epoch(),
                   .total_steps = config.train.max_steps};
  if (config.train.epochs > 0) {
    const std::int64_t steps =
        std::max<std::int64_t>(1, rounded_steps(config.train.epochs, length.steps_per_epoch));
    length.total_steps = length.total_steps > 0 ? std::min(length.total_steps, steps) : steps;
  }
  return length;
}

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)),
      sampler_(sampler_options(parts_.config, parts_.data.train->size(), parts_.gradients)),
      length_(run_length(parts_.config, parts_.data.train->size())),
      step_(parts_.config, parts_.replica, parts_.task, parts_.format, sampler_,
            length_.total_steps, parts_.gradients, parts_.control) {}

StateDocument Trainer::restore(const std::filesystem::path& checkpoint) {
  const Learner learner = step_.learner();
  const StateDocument document =
      restore_snapshot(checkpoint, parts_.replica, &learner, parts_.control);
  if (document.state.step > length_.total_steps) {
    throw SharedError(ExitCode::kUsage,
                      "the run has done " + std::to_string(document.state.step) +
                          " steps, but train.epochs and train.max_steps now allow " +
                          std::to_string(length_.total_steps) + " only; raise them");
  }
  state_ = document.state;
  saved_step_ = state_.step;
  take_up_checkpoints(checkpoint);
  return document;
}

// What the state says of the checkpoints is true of the links, too: a run killed between writing
// a checkpoint and linking it has no link or that of an older one, and one that has passed over a
// damaged checkpoint may have a link to that.
void Trainer::take_up_checkpoints(const std::filesystem::path& checkpoint) {
  collectively(parts_.control, [&] {
    const bool here = parts_.control.rank() == 0 && checkpoint.parent_path() == parts_.checkpoints;
    if (!here) return;
    if (saver_ != nullptr) saver_->resume_from(state_.step);
    mark_latest(parts_.checkpoints, state_.step);
    if (state_.best_metric && has_checkpoint(parts_.checkpoints, state_.best_step))
      mark_best(parts_.checkpoints, state_.best_step);
  });
}

void Trainer::prepare_to_save() {
  if (parts_.checkpoints.empty()) return;
  saver_ = std::make_unique<Saver>(
      SaverOptions{.checkpoints = parts_.checkpoints,
                   .keep = parts_.config.checkpoint.keep,
                   .timeout = std::chrono::milliseconds(
                       static_cast<std::int64_t>(parts_.config.run.timeout * 1e3)),
                   .most = most_checkpoints()},
      parts_.replica, step_.learner(), document(), parts_.control);
}

// Those that rotation keeps, the best besides, and one that is being written; or as many as the
// whole run writes.
std::int64_t Trainer::most_checkpoints() const {
  const Config& config = parts_.config;
  const std::int64_t kept =
      config.checkpoint.keep + (parts_.data.validation != nullptr ? 1 : 0) + 1;
  const std::int64_t every = config.checkpoint.every_steps;
  const double period =
      config.train.eval_every_epochs * static_cast<double>(length_.steps_per_epoch);
  const double steps = static_cast<double>(length_.total_steps);
  const double written = 1 + (every > 0 ? steps / static_cast<double>(every) : 0) +
                         (period > 0 ? std::min(steps, steps / period) : 0);
  return written < static_cast<double>(kept) ? static_cast<std::int64_t>(written) : kept;
}

EndEvent Trainer::run() {
  std::optional<SharedError> failure;
  try {
    return train();
  } catch (const SharedError& error) {
    failure = error;
  }
  // All ranks end here; what is being written is a good checkpoint all the same.
  settle(failure->what());
  throw SharedError(*failure);
}

// After an error of all ranks, with these words.
void Trainer::settle(const std::string& words) {
  if (saver_ == nullptr) return;
  enter_phase(Phase::kCheckpoint);
  try {
    saver_->settle();
  } catch (const CheckpointError& error) {
    throw CheckpointError(words + "\nbesides, " + error.what());
  }
  report_saved();
}

EndEvent Trainer::train() {
  const auto start = std::chrono::steady_clock::now();
  parts_.observer.on_start({.step = state_.step,
                            .evaluation_pending = state_.evaluation_pending,
                            .total_steps = length_.total_steps,
                            .steps_per_epoch = length_.steps_per_epoch,
                            .world_size = parts_.control.size(),
                            .parameters = parts_.replica.num_trained(),
                            .train_samples = parts_.data.train->size()});
  Loader loader(parts_.data.train, sampler_,
                {.augment = parts_.format.augment,
                 .workers = parts_.config.data.workers,
                 .prefetch = parts_.config.data.prefetch},
                state_.step, std::max(state_.step, length_.total_steps));
  reported_step_ = state_.step;
  fault_point(FaultPoint::kStartReady);
  double samples = 0, step_ms = 0;
  bool stopped = false;
  if (state_.evaluation_pending) {
    const Evaluation evaluation = evaluate_if_due();
    stopped = evaluation == Evaluation::kCutOff;
    if (evaluation == Evaluation::kDone) save();
  }
  while (!done() && !stopped) {
    const StepOutcome outcome = in_phase("step " + std::to_string(state_.step + 1), [&] {
      return step_.run(state_.step, loader, requests());
    });
    enter_phase(Phase::kReport);
    state_.step = outcome.event.step;
    samples += static_cast<double>(outcome.event.samples);
    step_ms += outcome.event.step_ms;
    parts_.observer.on_step(outcome.event);
    save_requested_ = save_requested_ || outcome.save;
    report_saved();
    if (outcome.write_failed) finish_saving();
    if (!outcome.together) continue;
    // A stop brings nodes together early; an evaluation is due when they would have been.
    const bool planned = step_.period().together_after(state_.step);
    stopped = (planned && evaluate_if_due() == Evaluation::kCutOff) || (outcome.stop && !done());
    save_if_due(stopped || done() || save_requested_);
    report_ranks_if_due(stopped || done());
  }
  finish_saving();
  EndEvent end{.status = stopped ? "stopped" : out_of_patience() ? "early_stop" : "finished"};
  end.steps = state_.step;
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  end.samples_per_s = step_ms > 0 ? 1e3 * samples / step_ms : 0;
  parts_.observer.on_end(end);
  return end;
}

// Due in the step in which the next multiple of the period is reached; a period may be a fraction
// of a step.
bool Trainer::evaluation_due() const {
  if (state_.step >= length_.total_steps) return true;
  const double period =
      parts_.config.train.eval_every_epochs * static_cast<double>(length_.steps_per_epoch);
  const auto periods = [&](std::int64_t step) {
    return std::floor(static_cast<double>(step) / period + 1e-9);
  };
  return period > 0 && periods(state_.step) > periods(state_.evaluated_to);
}

Trainer::Evaluation Trainer::evaluate_if_due() {
  new_best_ = false;
  const TrainingState before = state_;
  const bool due = evaluation_due();
  state_.evaluation_pending = false;
  state_.evaluated_to = state_.step;
  if (!due) return Evaluation::kNotDue;
  if (evaluate()) return Evaluation::kDone;
  state_ = before;
  state_.evaluation_pending = true;
  new_best_ = false;
  return Evaluation::kCutOff;
}

bool Trainer::evaluate() {
  std::optional<EvalEvent> validation, test;
  if (parts_.data.validation != nullptr) {
    validation = evaluate_on("validation", parts_.data.validation);
    if (!validation) return false;
    judge(*validation);
  }
  const bool test_now = parts_.data.validation == nullptr || done();
  if (parts_.data.test != nullptr && test_now) {
    test = evaluate_on("test", parts_.data.test);
    if (!test) return false;
  }
  // Not before both are complete: what was cut off has told nobody anything.
  if (validation) parts_.observer.on_eval(*validation);
  if (test) parts_.observer.on_eval(*test);
  return true;
}

std::optional<EvalEvent> Trainer::evaluate_on(const std::string& split,
                                              const std::shared_ptr<const Dataset>& dataset) {
  EvaluationOptions options = evaluation_options(parts_.config, parts_.control.size());
  options.stop_requested = parts_.stop_requested;
  options.progress = [&, total = dataset->size()](std::int64_t samples) {
    parts_.observer.on_eval_progress({.split = split, .samples = samples, .total = total});
  };
  const EvaluationResult result =
      in_phase("evaluation after step " + std::to_string(state_.step), [&] {
        return trireme::evaluate(parts_.replica, parts_.task, parts_.format, dataset, options,
                                 parts_.control);
      });
  if (result.stopped) return std::nullopt;
  return to_event(result, split, state_.step, epoch());
}

void Trainer::judge(EvalEvent& event) {
  const bool higher = parts_.task.metric_higher_is_better;
  const bool better = !state_.best_metric || (higher ? event.metric > *state_.best_metric
                                                     : event.metric < *state_.best_metric);
  event.best = better && std::isfinite(event.metric);
  new_best_ = event.best;
  state_.evaluations_without_best = event.best ? 0 : state_.evaluations_without_best + 1;
  if (!event.best) return;
  state_.best_metric = event.metric;
  state_.best_step = event.step;
}

bool Trainer::out_of_patience() const {
  return parts_.config.train.patience > 0 &&
         state_.evaluations_without_best >= parts_.config.train.patience;
}

// Among several ranks, on the steps that log.ranks_every_steps says, and after the last one.
void Trainer::report_ranks_if_due(bool must) {
  const std::int64_t every = parts_.config.log.ranks_every_steps;
  const std::int64_t steps = state_.step - reported_step_;
  if (parts_.control.size() == 1 || steps == 0) return;
  if (!must && (every == 0 || steps < every)) return;
  enter_phase(Phase::kReport);
  reported_step_ = state_.step;
  const RanksEvent event = in_phase("reporting the ranks' times", [&] {
    return report_ranks({.step = state_.step, .steps = steps}, parts_.host, parts_.control);
  });
  if (!event.ranks.empty()) parts_.observer.on_ranks(event);
}

StepRequests Trainer::requests() const {
  return {.stop = parts_.stop_requested(),
          .save = parts_.take_save_request && parts_.take_save_request(),
          .write_failed = saver_ != nullptr && saver_->failed()};
}

void Trainer::save_if_due(bool must) {
  const std::int64_t every = parts_.config.checkpoint.every_steps;
  const std::int64_t before = step_.period().last_together_before(state_.step);
  const bool due = must || new_best_ || (every > 0 && state_.step / every > before / every);
  if (due && saved_step_ != state_.step) save();
}

StateDocument Trainer::document() const {
  return {.state = state_,
          .epoch = epoch(),
          .world_size = parts_.control.size(),
          .num_nodes = parts_.gradients.placement().num_nodes,
          .config = dump_config(parts_.config),
          .environment = parts_.environment};
}

void Trainer::save() {
  if (saver_ == nullptr) return;
  enter_phase(Phase::kCheckpoint);
  in_phase("checkpoint of step " + std::to_string(state_.step),
           [&] { saver_->save(document(), new_best_); });
  saved_step_ = state_.step;
  save_requested_ = false;
  // A request reaches ranks at different moments: what has come by now is followed, too.
  if (parts_.take_save_request) static_cast<void>(parts_.take_save_request());
  report_saved();  // one that this had to wait for
}

void Trainer::finish_saving() {
  if (saver_ == nullptr) return;
  enter_phase(Phase::kCheckpoint);
  in_phase("writing the checkpoint of step " + std::to_string(saved_step_),
           [&] { saver_->finish(); });
  report_saved();
}

void Trainer::report_saved() {
  if (saver_ == nullptr) return;
  for (const CheckpointEvent& event : saver_->take_events()) parts_.observer.on_checkpoint(event);
}

}  // namespace trireme
