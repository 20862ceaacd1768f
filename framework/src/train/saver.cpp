// SPDX-License-Identifier: Apache-2.0
#include "train/saver.hpp"

#include <utility>

#include "comm/agree.hpp"
#include "comm/shared_error.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Numbers in a state text grow by less than this from one checkpoint to another.
constexpr std::size_t kStateGrowth = 4096;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace

Saver::Saver(SaverOptions options, const Replica& replica, Learner learner,
             const StateDocument& like, Communicator& control)
    : timeout_(options.timeout),
      control_(control),
      image_(replica, learner, to_json(like).size() + kStateGrowth, control),
      writer_({.checkpoints = options.checkpoints, .keep = options.keep}) {
  collectively(control_, [&] {
    if (control_.rank() != 0) return;
    require_room(options.checkpoints, options.most, static_cast<std::int64_t>(image_.size_bytes()));
  });
}

void Saver::save(const StateDocument& document, bool best) {
  const auto start = Clock::now();
  finish();
  const auto waited = Clock::now();
  image_.fill(document.state.step, to_json(document));
  if (control_.rank() != 0) return;
  writer_.start({.step = document.state.step, .image = image_.bytes(), .best = best});
  started_ = start;
  current_ = {.step = document.state.step,
              .path = {},
              .stall_ms = 1e3 * seconds_between(start, Clock::now()),
              .waited_ms = 1e3 * seconds_between(start, waited)};
}

void Saver::finish() {
  wait_for_writer();
  collectively(control_, [&] { note_outcome(); });
}

// In short rounds, so that a write that takes longer than run.timeout is no stall.
void Saver::wait_for_writer() {
  constexpr std::chrono::milliseconds kRound{100};
  std::int64_t moves = -1;
  Clock::time_point moved_at;
  while (any_rank(control_, !writer_.wait_for(kRound))) {
    if (std::exchange(moves, writer_.moves()) != moves) moved_at = Clock::now();
    const bool hangs = timeout_.count() > 0 && Clock::now() - moved_at > timeout_;
    if (!hangs || writer_.wait_for({})) continue;
    throw CheckpointError("the checkpoint of step " + std::to_string(current_.step) +
                          " has not come on for " + std::to_string(timeout_.count() / 1000) +
                          " s (run.timeout): the file system of the run directory hangs; what was "
                          "committed before is whole");
  }
}

void Saver::settle() {
  wait_for_writer();
  if (!writer_.failed()) note_outcome();
}

std::vector<CheckpointEvent> Saver::take_events() {
  if (writer_.wait_for({}) && !writer_.failed()) note_outcome();
  return std::exchange(events_, {});
}

// Of a job that is not at work any more.
void Saver::note_outcome() {
  const auto done = writer_.take();
  if (!done) return;
  current_.path = done->checkpoint.directory.string();
  current_.size_bytes = done->checkpoint.size_bytes;
  current_.seconds = seconds_between(started_, done->at);
  events_.push_back(std::exchange(current_, {}));
}

}  // namespace trireme
