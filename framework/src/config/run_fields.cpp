// SPDX-License-Identifier: Apache-2.0
// The keys of section run.
#include "config/field_types.hpp"

namespace trireme {
namespace {

constexpr double kMostTime = 1e8;  // three years: short of overflow in nanoseconds

}  // namespace

Section run_section() {
  const auto run = &Config::run;
  return {
      .name = "run",
      .help = "One training run: its name, place and seed.",
      .fields = {
          field("name", run, &RunConfig::name,
                "Name of the run: letters, digits, '.', '_' and '-', not starting with '.' or '-'.",
                {.default_note = "the configuration's file name without .yaml"}),
          field("dir", run, &RunConfig::dir, "The whole path of the run directory.",
                {.synonyms = {"output_dir", "out_dir"}, .default_note = "runs/NAME"}),
          field("shared", run, &RunConfig::shared,
                "Whether all hosts see run.dir, which is checked. false: only rank 0's host has "
                "it, and a resume has to have rank 0 there again."),
          field("seed", run, &RunConfig::seed,
                "Seed of all randomness: initial weights, order, augmentation, dropout.",
                {.min = 0}),
          field(
              "device", run, &RunConfig::device,
              "Where each rank computes: on its cores, or on a GPU of its own. cuda wants a build "
              "with CUDA (preset cuda-release).",
              {.choices = {"cpu", "cuda"}}),
          field("timeout", run, &RunConfig::timeout,
                "Seconds that a rank waits for the others before it gives up.",
                {.min = 0.001, .max = kMostSeconds}),
          field("time_limit", run, &RunConfig::time_limit,
                "How long this start of the run may take: it is stopped and saved in time, with "
                "exit code 75. 0 means no limit. In a Slurm job the job's end counts as well "
                "(SLURM_JOB_END_TIME).",
                {.min = 0, .max = kMostTime, .time = true, .synonyms = {"max_time", "walltime"}}),
          field("time_margin", run, &RunConfig::time_margin,
                "How long before that end it is stopped: a step and a checkpoint have to fit in.",
                {.min = 0, .max = kMostTime, .time = true}),
      }};
}

}  // namespace trireme
