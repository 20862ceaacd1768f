// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "config/field_types.hpp"
#include "config/fields.hpp"

namespace trireme {
namespace {

// Upper bound of what is converted to whole steps or bytes later: far beyond use, short of
// overflow.
constexpr double kMostSamples = 2147483647;

Section data_section() {
  const auto data = &Config::data;
  return {
      .name = "data",
      .help = "What is trained on, and how it is read and augmented.",
      .fields =
          {
              field("name", data, &DataConfig::name, "A registered data set.",
                    {.required = true, .synonyms = {"dataset"}}),
              field("path", data, &DataConfig::path,
                    "File or folder of the data; what it holds is the data set's to say.",
                    {.synonyms = {"root", "data_dir", "dir"}}),
              field("workers", data, &DataConfig::workers, "Decoding threads on each rank.",
                    {.min = 1, .max = 256, .synonyms = {"num_workers"}}),
              field("prefetch", data, &DataConfig::prefetch,
                    "Micro-batches that are decoded ahead.",
                    {.min = 1, .max = 1024, .synonyms = {"prefetch_factor"}}),
              field("shuffle", data, &DataConfig::shuffle,
                    "Draw a new order of samples every epoch."),
              field("drop_last", data, &DataConfig::drop_last,
                    "Leave out the incomplete last global batch of an epoch."),
              field("validation_fraction", data, &DataConfig::validation_fraction,
                    "Share of the training set that is held out: evaluations are on it, and choose "
                    "the "
                    "best checkpoint; the test set is evaluated at the end only.",
                    {.min = 0, .max = 0.9, .synonyms = {"val_split", "validation_split"}}),
              field("mean", data, &DataConfig::mean,
                    "Mean of each channel of the pixels scaled to [0, 1]; an empty list means 0.",
                    {.min = 0, .max = 1}),
              field("std", data, &DataConfig::std,
                    "Standard deviation of each channel; an empty list means 1.",
                    {.min = 0, .max = 1, .above_min = true}),
              field("flip", data, &DataConfig::flip,
                    "Mirror images: at random each epoch, or at random once and alternating by "
                    "epoch.",
                    {.choices = {"none", "random", "alternate"}}),
              field("crop_padding", data, &DataConfig::crop_padding,
                    "Crop images at random after padding each side by this many pixels.",
                    {.min = 0, .max = 64}),
              field("crop_fill", data, &DataConfig::crop_fill, "What the padding is filled with.",
                    {.choices = {"zero", "reflect"}}),
          },
      .registered = registered("data set", &DeclaredOptions::datasets, data)};
}

Section optimizer_section() {
  const auto optimizer = &Config::optimizer;
  const std::vector<std::string> adams{"adam", "adamw"};
  return {
      .name = "optimizer",
      .help = "The update rule. `groups` lists parameter groups that differ from it.",
      .fields =
          {
              field("name", optimizer, &OptimizerConfig::name, "The update rule.",
                    {.choices = optimizer_names(), .required = true}),
              field("lr", optimizer, &OptimizerConfig::lr,
                    "Learning rate, which the schedule multiplies.",
                    {.min = 0,
                     .max = 1e6,
                     .above_min = true,
                     .required = true,
                     .synonyms = {"learning_rate", "base_lr"}}),
              field("weight_decay", optimizer, &OptimizerConfig::weight_decay,
                    "Weight decay, applied as the rule defines it: adamw decouples it from the "
                    "gradient.",
                    {.min = 0, .max = 1e6, .synonyms = {"wd", "decay"}}),
              field("momentum", optimizer, &OptimizerConfig::momentum, "Momentum.",
                    {.min = 0, .max = 1, .below_max = true, .only_for = {"sgd", "muon"}}),
              field("nesterov", optimizer, &OptimizerConfig::nesterov,
                    "Nesterov's form of momentum.", {.only_for = {"sgd"}}),
              field("beta1", optimizer, &OptimizerConfig::beta1, "Decay of the mean of gradients.",
                    {.min = 0,
                     .max = 1,
                     .below_max = true,
                     .only_for = adams,
                     .synonyms = {"betas"}}),
              field("beta2", optimizer, &OptimizerConfig::beta2,
                    "Decay of the mean of squared gradients.",
                    {.min = 0, .max = 1, .below_max = true, .only_for = adams}),
              field("eps", optimizer, &OptimizerConfig::eps, "Added to the denominator.",
                    {.min = 0,
                     .max = 1,
                     .above_min = true,
                     .only_for = adams,
                     .synonyms = {"epsilon"}}),
              field("muon_steps", optimizer, &OptimizerConfig::muon_steps,
                    "Newton-Schulz iterations.", {.min = 1, .max = 20, .only_for = {"muon"}}),
              field("muon_normalize_weights", optimizer, &OptimizerConfig::muon_normalize_weights,
                    "Scale each weight to Frobenius norm sqrt(rows) before its update.",
                    {.only_for = {"muon"}}),
          },
      .has_groups = true};
}

Section schedule_section() {
  const auto schedule = &Config::schedule;
  return {
      .name = "schedule",
      .help = "How the learning rate changes over the run.",
      .fields = {
          field("name", schedule, &ScheduleConfig::name, "Shape of the schedule.",
                {.choices = {"constant", "linear", "step", "cosine", "one_cycle"}}),
          field("unit", schedule, &ScheduleConfig::unit, "Unit of the lengths below.",
                {.choices = {"epochs", "steps"}}),
          field("warmup", schedule, &ScheduleConfig::warmup, "Length of the linear rise from 0.",
                {.min = 0, .max = kMostLength, .synonyms = {"warmup_steps", "warmup_epochs"}}),
          field("duration", schedule, &ScheduleConfig::duration,
                "Total length, warm-up included; 0 means the whole run.",
                {.min = 0, .max = kMostLength, .synonyms = {"length", "total_steps", "T_max"}}),
          field("final_fraction", schedule, &ScheduleConfig::final_fraction,
                "Last rate over optimizer.lr.",
                {.min = 0, .max = 1, .only_for = {"linear", "cosine", "one_cycle"}}),
          field("step_size", schedule, &ScheduleConfig::step_size,
                "Length between drops of the rate; must be > 0.",
                {.min = 0, .max = kMostLength, .only_for = {"step"}}),
          field("gamma", schedule, &ScheduleConfig::gamma, "Factor of each drop.",
                {.min = 0, .max = 1, .above_min = true, .only_for = {"step"}}),
          field("initial_fraction", schedule, &ScheduleConfig::initial_fraction,
                "First rate over optimizer.lr.",
                {.min = 0, .max = 1, .above_min = true, .only_for = {"one_cycle"}}),
          field("peak", schedule, &ScheduleConfig::peak,
                "Where in the duration the rate is highest, as a share of it.",
                {.min = 0,
                 .max = 1,
                 .above_min = true,
                 .below_max = true,
                 .only_for = {"one_cycle"},
                 .synonyms = {"pct_start"}}),
      }};
}

Section loss_section() {
  const auto loss = &Config::loss;
  return {.name = "loss",
          .help = "What is minimised.",
          .fields = {field("name", loss, &LossConfig::name, "A registered loss."),
                     field("reduction", loss, &LossConfig::reduction,
                           "The gradient is of the mean or of the sum over the global batch; "
                           "logs always show the mean.",
                           {.choices = {"mean", "sum"}})},
          .registered = registered("loss", &DeclaredOptions::losses, loss)};
}

Section metric_section() {
  return {.name = "metric",
          .help = "What is measured beside the loss; the best checkpoint is chosen by it.",
          .fields = {field("name", &Config::metric, &MetricConfig::name, "A registered metric.")},
          .registered =
              Registered{.part = "metric",
                         .names = [](const DeclaredOptions& declared) { return declared.metrics; },
                         .options = [](const DeclaredOptions&, const std::string&)
                             -> const std::vector<OptionSpec>* { return nullptr; },
                         .get_options = [](const Config&) -> const Options* { return nullptr; },
                         .set_options = [](Config&, const Options&) {}}};
}

Section train_section() {
  const auto train = &Config::train;
  return {
      .name = "train",
      .help = "How long and in which batches; at least one of `epochs` and `max_steps` is needed.",
      .fields = {
          field("epochs", train, &TrainConfig::epochs,
                "Passes over the training set; a fraction stops inside one; 0 means no limit.",
                {.min = 0, .max = 1e6, .synonyms = {"num_epochs", "max_epochs"}}),
          field("max_steps", train, &TrainConfig::max_steps,
                "Optimizer steps after which training ends; 0 means no limit.",
                {.min = 0, .synonyms = {"steps", "num_steps", "max_iterations"}}),
          field("global_batch", train, &TrainConfig::global_batch,
                "Samples of one optimizer step, over all ranks.",
                {.min = 1,
                 .max = kMostSamples,
                 .required = true,
                 .synonyms = {"batch_size", "batch", "global_batch_size"}}),
          field("micro_batch", train, &TrainConfig::micro_batch,
                "Samples of one forward pass on one rank; 0 means the rank's whole share.",
                {.min = 0, .max = kMostSamples, .synonyms = {"micro_batch_size"}}),
          field("precision", train, &TrainConfig::precision,
                "Number format of parameters and arithmetic.",
                {.choices = {"fp32", "fp64"}, .synonyms = {"dtype"}}),
          field(
              "update_in_backward", train, &TrainConfig::update_in_backward,
              "Update each bucket of parameters as soon as its gradient is summed, while backward "
              "still runs: faster where memory is the limit. Nothing can then be decided from the "
              "whole gradient: it cannot be clipped, and a loss that is not finite is found after "
              "the update."),
          field("clip_norm", train, &TrainConfig::clip_norm,
                "Scale the gradient down to this global norm; 0 means off.",
                {.min = 0,
                 .max = 1e9,
                 .synonyms = {"max_grad_norm", "grad_clip", "gradient_clip_val"}}),
          field("eval_every_epochs", train, &TrainConfig::eval_every_epochs,
                "Epochs between evaluations; 0 means only at the end.",
                {.min = 0, .max = 1e6, .synonyms = {"eval_every", "check_val_every_n_epoch"}}),
          field("eval_batch", train, &TrainConfig::eval_batch,
                "Samples of one forward pass of evaluation on one rank; 0 means the rank's share "
                "of global_batch, at most 500.",
                {.min = 0, .max = kMostSamples, .synonyms = {"eval_batch_size"}}),
          field("eval_views", train, &TrainConfig::eval_views,
                "Average outputs over views of an image: itself, its mirror, or six with one-pixel "
                "shifts.",
                {.choices = {"single", "mirror", "six"}, .synonyms = {"tta"}}),
          field("patience", train, &TrainConfig::patience,
                "Stop after this many evaluations without improvement on the validation split; "
                "0 means never.",
                {.min = 0, .synonyms = {"early_stopping"}}),
      }};
}

Section parallel_section() {
  const auto parallel = &Config::parallel;
  return {
      .name = "parallel",
      .help = "How ranks work together.",
      .fields = {
          field("bucket_mb", parallel, &ParallelConfig::bucket_mb,
                "Size limit of a gradient bucket, in 10^6 bytes; a larger parameter travels whole, "
                "in a bucket of its own. 0: chosen at the start of a run "
                "from the measured latency and bandwidth, and kept with the run; with powersgd 25.",
                {.min = 0, .max = 1e5, .synonyms = {"bucket_cap_mb"}}),
          field(
              "edge_bucket_mb", parallel, &ParallelConfig::edge_bucket_mb,
              "The same of the first and the last bucket to be reduced; 0: a quarter of bucket_mb.",
              {.min = 0, .max = 1e5}),
          field("shard_over", parallel, &ParallelConfig::shard_over,
                "Ranks that share out the optimizer's state and work: those of a `node`, so "
                "that nothing travels between nodes after the update, or of the `world`, "
                "which takes the least memory.",
                {.choices = {"node", "world"}}),
          field("sync_every", parallel, &ParallelConfig::sync_every,
                "1: gradients are summed over all ranks. More: each node trains for itself, and "
                "every "
                "so many steps parameters and optimizer state are averaged over nodes (local SGD). "
                "Needs compression: none, shard_over: node, data.drop_last: true, no "
                "sync_batch_norm, equally many ranks on every node, and a train.global_batch that "
                "is a multiple of the number of ranks. "
                "Evaluations and checkpoints wait for that step; a stop averages at once, "
                "and the run then goes on otherwise than one that was not stopped. "
                "train.clip_norm acts on each node's own gradient.",
                {.min = 1}),
          field("compression", parallel, &ParallelConfig::compression,
                "How gradients travel between nodes (all ranks with --ranks-per-node 1). fp16, "
                "bf16: each node's sum is rounded "
                "once, added in fp32, and the sum rounded once more; half the bytes. "
                "powersgd: as products of thin matrices; a hundredth of the bytes, but "
                "approximate: for links of 1 Gbit/s and less.",
                {.choices = {"none", "fp16", "bf16", "powersgd"}}),
          field(
              "error_feedback", parallel, &ParallelConfig::error_feedback,
              "With fp16 and bf16: what rounding takes off is added to the next gradient; one more "
              "float32 for each element of a rank's part of the gradients, on every node, in "
              "memory. A checkpoint holds one more gradient a node, and one for all nodes "
              "together. "
              "powersgd always does so, without the last."),
          field("powersgd_rank", parallel, &ParallelConfig::powersgd_rank,
                "With powersgd: columns of the thin matrices.", {.min = 1, .max = 128}),
          field("powersgd_start", parallel, &ParallelConfig::powersgd_start,
                "With powersgd: the first step, counted from 0, that is compressed; less than the "
                "run's steps.",
                {.min = 0}),
          field("sync_batch_norm", parallel, &ParallelConfig::sync_batch_norm,
                "BatchNorm normalises by the statistics of all ranks' samples, as if one "
                "rank had a train.micro_batch as large as those of all ranks together; else "
                "each rank by its own. Matters where a rank has few samples a forward, say "
                "under 16. Costs each layer a wait for the other ranks in forward and one in "
                "backward, in every micro-batch.")}};
}

Section checkpoint_section() {
  const auto checkpoint = &Config::checkpoint;
  return {
      .name = "checkpoint",
      .help = "When the state of the training is saved.",
      .fields = {
          field("every_steps", checkpoint, &CheckpointConfig::every_steps,
                "Optimizer steps between checkpoints. Whatever it is, one is made at the end, on a "
                "stop, and after each best validation result.",
                {.min = 0, .synonyms = {"every", "save_steps"}}),
          field("keep", checkpoint, &CheckpointConfig::keep,
                "Newest checkpoints that are kept; the best is kept besides.",
                {.min = 1, .synonyms = {"save_total_limit", "keep_last"}})}};
}

Section log_section() {
  const auto log = &Config::log;
  return {.name = "log",
          .help = "What is written while training.",
          .fields = {field("every_steps", log, &LogConfig::every_steps,
                           "Optimizer steps between step records in metrics.csv and metrics.jsonl.",
                           {.min = 1, .synonyms = {"every", "log_every", "log_interval"}}),
                     field("ranks_every_steps", log, &LogConfig::ranks_every_steps,
                           "Steps between tables of what each rank did with its time (log.txt, "
                           "metrics.jsonl); 0: only at the end.",
                           {.min = 0}),
                     field("console_seconds", log, &LogConfig::console_seconds,
                           "Seconds between step lines on the console and in log.txt, at least.",
                           {.min = 0, .max = kMostSeconds})}};
}

}  // namespace

const std::vector<Section>& config_sections() {
  static const std::vector<Section> sections{
      run_section(),      model_section(),   data_section(),       optimizer_section(),
      schedule_section(), loss_section(),    metric_section(),     train_section(),
      parallel_section(), network_section(), checkpoint_section(), log_section()};
  return sections;
}

}  // namespace trireme
