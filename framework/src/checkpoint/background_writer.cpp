// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/background_writer.hpp"

#include "checkpoint/directory.hpp"
#include "trireme/error.hpp"

namespace trireme {

void BackgroundWriter::resume_from(std::int64_t step) {
  TRIREME_ASSERT(!outcome_.valid(), "resumed while it writes");
  doubtful_.clear();
  for (const std::filesystem::path& path : list_checkpoints(options_.checkpoints)) {
    const std::int64_t other = step_of(path.filename().string()).value_or(0);
    if (other > step) doubtful_.insert(other);
  }
}

void BackgroundWriter::start(const Job& job) {
  TRIREME_ASSERT(!outcome_.valid(), "started twice");
  outcome_ = std::async(std::launch::async, [this, job] { return write(job); });
}

bool BackgroundWriter::wait_for(std::chrono::milliseconds time) const {
  return !outcome_.valid() || outcome_.wait_for(time) == std::future_status::ready;
}

std::optional<BackgroundWriter::Done> BackgroundWriter::take() {
  if (!outcome_.valid()) return std::nullopt;
  failed_ = false;
  return outcome_.get();
}

BackgroundWriter::Done BackgroundWriter::write(const Job& job) {
  try {
    Done done{.checkpoint = commit_checkpoint(options_.checkpoints, job.step, job.image,
                                              [this] { ++moves_; }),
              .at = std::chrono::steady_clock::now()};
    doubtful_.erase(job.step);
    ++moves_;
    if (job.best) mark_best(options_.checkpoints, job.step);
    rotate_checkpoints(options_.checkpoints, options_.keep, doubtful_);
    return done;
  } catch (...) {
    failed_ = true;
    throw;  // kept for take()
  }
}

}  // namespace trireme
