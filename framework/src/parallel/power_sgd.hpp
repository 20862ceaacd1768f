// SPDX-License-Identifier: Apache-2.0
// Gradients of matrices travel between nodes as products of two thin ones. T. Vogels, S.
// Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization" (2019).
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/gradient_reduction.hpp"
#include "parallel/residuals.hpp"

namespace trireme {

// Note [PowerSGD over nodes]
// A node is one worker: its ranks sum their gradients exactly, bucket by bucket while backward
// runs. After backward each rank works on its part of each matrix M of its node, with the node's
// residual added: P is the sum over nodes of M Q, made orthonormal; Q is the sum over nodes of M'
// P, kept for the next step; P Q' stands for the sum of the gradients, and what it misses of a
// node's share of it becomes that node's residual. A part is some rows of a matrix, the first and
// the last perhaps not whole: both products are sums over a matrix's elements, so that parts add up
// to them. What has one dimension, or is no larger than its factors, is summed exactly beside P.
class PowerSgd : public GradientReduction {
 public:
  struct Options {
    std::int64_t rank = 4;        // columns of P and Q; >= 1
    std::int64_t start_step = 0;  // sums are exact before: the first gradients vary most
  };

  // Shards must be over the node. f32 gradients. All must outlive this.
  PowerSgd(FlatParameters& flat, Sharding& sharding, Options options);

  void begin_step(std::int64_t step) override;
  Request mark() override { return sharding_.communicator().mark(); }
  void post(std::size_t bucket) override;
  bool test(std::size_t bucket) override { return !compresses_ && requests_[bucket].test(); }
  void finish_step() override;
  std::chrono::steady_clock::time_point completed_at(std::size_t bucket) const override {
    return compresses_ ? finished_at_ : requests_[bucket].completed_at();
  }

  // Residuals, and slot "powersgd_q" of each matrix.
  void visit_state(const Visit& visit) override;
  void restore_state(const Fetch& fetch) override;

 private:
  struct Matrix {
    std::size_t bucket = 0, parameter = 0;
    std::int64_t rows = 0, columns = 0;
    Part part;                 // this rank's, in elements of the bucket; may be empty
    std::int64_t offset = 0;   // of element 0 in the bucket
    at::Tensor q;              // (columns, rank)
    std::int64_t p_begin = 0;  // rows of this matrix in a step's P of all
    std::int64_t q_begin = 0;  // and Q
    at::Tensor work;           // (own rows, columns): gradient plus residual, zero outside part
  };
  // A run of a bucket that is summed exactly; part: this rank's.
  struct Rest {
    std::size_t bucket = 0;
    Part whole, part;
    std::int64_t begin = 0;  // in a step's numbers
  };

  void add_item(std::size_t bucket, const PlanItem& item);
  bool is_matrix(const at::Tensor& tensor) const;
  std::int64_t first_row(const Matrix& matrix) const;
  void load(Matrix& matrix) const;
  void decompress(Matrix& matrix, const at::Tensor& p, const at::Tensor& q) const;
  at::Tensor residual(const Matrix& matrix) const;  // of its part

  FlatParameters& flat_;
  Sharding& sharding_;
  const Options options_;
  const double num_nodes_;
  Residuals residuals_;
  std::vector<Matrix> matrices_;
  std::vector<Rest> rests_;
  std::int64_t p_rows_ = 0, q_rows_ = 0, rest_numel_ = 0;
  bool compresses_ = false;                            // in this step
  std::chrono::steady_clock::time_point finished_at_;  // of a step that was compressed
  std::vector<Request> requests_;                      // [bucket]
};

}  // namespace trireme
