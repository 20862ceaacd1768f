// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "config/config.hpp"
#include "observe/observer.hpp"
#include "train/replica.hpp"

namespace trireme {

struct EvaluationResult {
  double loss = 0, metric = 0;  // means over all terms
  std::int64_t samples = 0;
  double seconds = 0;
  bool stopped = false;  // on request, before the end: the other fields mean nothing
};

struct EvaluationOptions {
  std::int64_t batch = 1;        // samples a forward on one rank
  std::string views = "single";  // single | mirror | six, of train.eval_views
  std::int64_t workers = 1;
  std::int64_t prefetch = 2;
  // Asked after every batch on every rank; all stop where one is asked to. Empty: nobody asks.
  std::function<bool()> stop_requested = {};
  // Told after every batch how many of the data set's samples are done. May be empty.
  std::function<void(std::int64_t samples)> progress = {};
};

// What the configuration says.
EvaluationOptions evaluation_options(const Config& config, int world_size);

// Collective. Every sample counts exactly once, whatever the world size; the ranks share the work.
// The model is in eval mode meanwhile and in train mode afterwards.
EvaluationResult evaluate(Replica& replica, const Task& task, const InputFormat& format,
                          const std::shared_ptr<const Dataset>& dataset,
                          const EvaluationOptions& options, Communicator& communicator);

// step, epoch: done when it was evaluated.
EvalEvent to_event(const EvaluationResult& result, const std::string& split, std::int64_t step,
                   double epoch);

// The model's output averaged over views of an image batch. "mirror": the image and its mirror
// image. "six": half of that, and a quarter each of the same for the crops at (0, 0) and (2, 2) of
// the image reflect-padded by 1.
at::Tensor forward_views(Model& model, const at::Tensor& input, const std::string& views);

}  // namespace trireme
