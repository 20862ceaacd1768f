// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_reduction.hpp"

#include <optional>

#include "parallel/power_sgd.hpp"
#include "parallel/residuals.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

WireType wire_type(const std::string& compression) {
  if (compression == "fp16") return WireType::kF16;
  if (compression == "bf16") return WireType::kBF16;
  return WireType::kSame;
}

// Sums as the communicator does them, on a wire of some type.
class WireReduction : public GradientReduction {
 public:
  WireReduction(FlatParameters& flat, Sharding& sharding, WireType type, bool error_feedback)
      : flat_(flat), sharding_(sharding), type_(type), requests_(flat.plan().buckets.size()) {
    if (error_feedback) residuals_.emplace(flat, sharding, /*of_sums=*/true);
  }

  void begin_step(std::int64_t) override {
    for (Request& request : requests_) request = {};
    counts_ = {};
  }

  void post(std::size_t bucket) override {
    const Wire wire{
        .type = type_,
        .residual = residuals_ ? residuals_->part(bucket).mutable_data_ptr<float>() : nullptr,
        .sum_residual =
            residuals_ ? residuals_->of_sums(bucket).mutable_data_ptr<float>() : nullptr,
        .counts = &counts_};
    requests_[bucket] = sharding_.reduce(span_of(flat_.gradients(bucket)),
                                         flat_.plan().buckets[bucket].shard_offsets, wire);
  }

  Request mark() override { return sharding_.communicator().mark(); }
  bool test(std::size_t bucket) override { return requests_[bucket].test(); }

  void finish_step() override {
    for (std::size_t b = 0; b < requests_.size(); ++b) flat_.wait(requests_[b], "gradients", b);
  }

  std::chrono::steady_clock::time_point completed_at(std::size_t bucket) const override {
    return requests_[bucket].completed_at();
  }
  WireCounts counts() const override { return counts_; }

  void visit_state(const Visit& visit) override {
    if (residuals_) residuals_->visit(visit);
  }
  void restore_state(const Fetch& fetch) override {
    if (residuals_) residuals_->restore(fetch);
  }

 private:
  FlatParameters& flat_;
  Sharding& sharding_;
  const WireType type_;
  std::optional<Residuals> residuals_;
  WireCounts counts_;
  std::vector<Request> requests_;  // [bucket]; last: destroyed first, they use the others
};

void require_f32(const FlatParameters& flat, const std::string& compression) {
  for (const PlanBucket& bucket : flat.plan().buckets) {
    if (bucket.dtype == DType::kF32) continue;
    throw ConfigError("parallel.compression: " + compression +
                      " takes f32 gradients; the model's " + "are " +
                      std::string(name_of(bucket.dtype)) +
                      "; set train.precision: fp32 or parallel.compression: none");
  }
}

}  // namespace

std::unique_ptr<GradientReduction> make_reduction(const ParallelConfig& config,
                                                  FlatParameters& flat, Sharding& sharding) {
  if (config.compression != "none") require_f32(flat, config.compression);
  if (config.compression == "powersgd") {
    return std::make_unique<PowerSgd>(
        flat, sharding,
        PowerSgd::Options{.rank = config.powersgd_rank, .start_step = config.powersgd_start});
  }
  return std::make_unique<WireReduction>(flat, sharding, wire_type(config.compression),
                                         config.error_feedback);
}

}  // namespace trireme
