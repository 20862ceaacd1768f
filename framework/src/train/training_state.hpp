// SPDX-License-Identifier: Apache-2.0
// What a run is, besides its tensors: all that a resumed run needs to go on exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

struct TrainingState {
  std::int64_t step = 0;              // steps done; the input's cursor, too (Note [One cursor])
  std::optional<double> best_metric;  // on the validation split
  std::int64_t best_step = 0;
  std::int64_t evaluations_without_best = 0;  // since then
  // Those that were due up to this step have been made. Before `step` where a stop has cut one off,
  // or has come between two steps after which nodes are together.
  std::int64_t evaluated_to = 0;
  // The evaluation after this step was cut off by a request to stop; a resumed run makes up for it,
  // unless its new configuration does not want it any more.
  bool evaluation_pending = false;
};

// Note [One cursor]
// Order, augmentation and dropout are pure functions of (seed, epoch, step, sample, layer), and
// rates are pure functions of the step. So the number of steps done says everything about where a
// run stands, for any world size and any number of loader threads; no generator state is saved.

// The state text of a checkpoint: JSON, with what else a reader may want to know.
struct StateDocument {
  TrainingState state;
  double epoch = 0;
  int world_size = 1;
  int num_nodes = 1;        // of Placement; 0: not known
  std::string config;       // resolved, YAML
  std::string environment;  // JSON object text: versions, instruction set, threads
};
std::string to_json(const StateDocument& document);
// CheckpointError that names `where` if fields are missing or of the wrong type.
StateDocument parse_state(const std::string& text, const std::string& where);

}  // namespace trireme
