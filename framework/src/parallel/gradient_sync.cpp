// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_sync.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "base/inject.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double ms(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

class GradientSync::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(std::shared_ptr<GradientSync*> sync, std::size_t parameter)
      : sync_(std::move(sync)), parameter_(parameter) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    if (*sync_ != nullptr) (*sync_)->on_gradient(parameter_);
    return outputs;
  }

 private:
  std::shared_ptr<GradientSync*> sync_;
  std::size_t parameter_;
};

double StepCommunication::overlapped_share() const {
  std::size_t done = 0, all = 0;
  for (const BucketTiming& bucket : buckets) {
    all += bucket.size_bytes;
    if (bucket.completed <= backward_returned) done += bucket.size_bytes;
  }
  return all == 0 ? 0 : static_cast<double>(done) / static_cast<double>(all);
}

GradientSync::GradientSync(FlatParameters& flat, GradientReduction& reduction)
    : flat_(flat),
      reduction_(reduction),
      self_(std::make_shared<GradientSync*>(this)),
      bucket_of_(flat.parameters().size()),
      expected_(flat.parameters().size(), 0),
      fired_(flat.parameters().size(), 0),
      missing_(flat.plan().buckets.size(), 0) {
  const auto& buckets = flat_.plan().buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const PlanItem& item : buckets[b].items) {
      const auto parameter = static_cast<std::size_t>(item.parameter);
      bucket_of_[parameter] = b;
      auto accumulator =
          torch::autograd::impl::grad_accumulator(flat_.parameters()[parameter].tensor);
      TRIREME_ASSERT(accumulator != nullptr,
                     "'" + flat_.parameters()[parameter].name + "' takes no gradient");
      accumulator->add_post_hook(std::make_unique<Hook>(self_, parameter));
      accumulators_.push_back(std::move(accumulator));
    }
  }
}

GradientSync::~GradientSync() { *self_ = nullptr; }

void GradientSync::begin_step(std::int64_t step, std::function<void(std::size_t)> update) {
  flat_.begin_step();
  reduction_.begin_step(step);
  posted_ = 0;
  updated_ = 0;
  update_ = std::move(update);
  last_backward_ = false;
  timing_ = {};
  timing_.buckets.resize(flat_.plan().buckets.size());
}

void GradientSync::expect_last_backward() {
  last_backward_ = true;
  fired_.assign(fired_.size(), 0);
  for (std::size_t b = 0; b < missing_.size(); ++b)
    missing_[b] = flat_.plan().buckets[b].items.size();
}

void GradientSync::on_gradient(std::size_t parameter) {
  if (!last_backward_) return;
  const std::size_t bucket = bucket_of_[parameter];
  if (bucket < posted_) {
    throw CommError(
        "the gradient of '" + flat_.parameters()[parameter].name +
        "' changed after it was reduced: it arrived " + std::to_string(fired_[parameter] + 1) +
        " times in this backward pass, " + std::to_string(expected_[parameter]) +
        " times in the first; a model must use a parameter equally often in every step");
  }
  ++fired_[parameter];
  if (!counted_ || fired_[parameter] != expected_[parameter]) return;
  --missing_[bucket];
  post_ready_buckets();
}

void GradientSync::post_ready_buckets() {
  while (posted_ < missing_.size() && missing_[posted_] == 0) post(posted_);
  update_summed_buckets();
}

void GradientSync::update_summed_buckets() {
  while (update_ && updated_ < posted_ && reduction_.test(updated_)) update_next_bucket();
}

void GradientSync::update_next_bucket() {
  const auto start = Clock::now();
  update_(updated_++);
  updating_ += Clock::now() - start;
}

void GradientSync::post(std::size_t bucket) {
  fault_point(FaultPoint::kGradientPost, [&] {
    flat_.gradients(bucket).narrow(0, 0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
  });
  timing_.buckets[bucket].posted = Clock::now();
  timing_.buckets[bucket].size_bytes = flat_.gradients(bucket).nbytes();
  posted_ = bucket + 1;
  if (update_) flat_.expect_writes(bucket);
  reduction_.post(bucket);
}

void GradientSync::finish_step() {
  const auto start = Clock::now();
  updating_ = {};
  backward_done_ = reduction_.mark();
  if (!counted_ && last_backward_) {
    std::transform(fired_.begin(), fired_.end(), expected_.begin(),
                   [](int n) { return std::max(n, 1); });
    counted_ = true;
  }
  while (posted_ < missing_.size()) post(posted_);
  update_summed_buckets();
  reduction_.finish_step();
  while (update_ && updated_ < posted_) update_next_bucket();
  update_ = nullptr;
  last_backward_ = false;
  timing_.exposed_ms = ms(Clock::now() - start - updating_);
}

const StepCommunication& GradientSync::last_step() {
  timing_.backward_returned = backward_done_.completed_at();
  for (std::size_t b = 0; b < posted_; ++b) {
    timing_.buckets[b].completed = reduction_.completed_at(b);
    // The host of a GPU has not waited.
    timing_.exposed_ms =
        std::max(timing_.exposed_ms, ms(timing_.buckets[b].completed - timing_.backward_returned));
  }
  return timing_;
}

}  // namespace trireme
