// SPDX-License-Identifier: Apache-2.0
#include "parallel/power_sgd.hpp"

#include <algorithm>
#include <array>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "base/philox.hpp"
#include "comm/phase.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// What of `whole` is in `part`; empty at its begin where nothing is.
Part intersection(Part whole, Part part) {
  const std::size_t begin = std::max(whole.begin, part.begin), end = std::min(whole.end, part.end);
  return begin < end ? Part{.begin = begin, .end = end}
                     : Part{.begin = whole.begin, .end = whole.begin};
}

// The same on every rank and in every run: numbers from [-1, 1) that belong to the parameter.
at::Tensor first_q(std::size_t parameter, std::int64_t columns, std::int64_t rank) {
  at::Tensor q = at::empty({columns, rank}, at::kFloat);
  auto* numbers = q.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < q.numel(); ++i) {
    const auto words = draw(parameter, Stream::kPowerSgd, static_cast<std::uint64_t>(i), 0);
    numbers[i] = static_cast<float>(words[0]) * 0x1p-31F - 1.0F;
  }
  return q;
}

// Gram-Schmidt, each column against all before, twice ("twice is enough": Parlett 1980), in double:
// a column that is left with nothing becomes zero, one that is not finite stays so. (n, rank), in
// place.
void orthonormalize(const at::Tensor& matrix) {
  const at::Tensor wide = matrix.to(at::kDouble);
  for (std::int64_t c = 0; c < wide.size(1); ++c) {
    const at::Tensor column = wide.select(1, c);
    const auto before = column.norm().item<double>();
    for (int pass = 0; pass < 2 && c > 0; ++pass) {
      const at::Tensor others = wide.narrow(1, 0, c);
      column.sub_(at::matmul(others, at::matmul(others.t(), column)));
    }
    const auto norm = column.norm().item<double>();
    if (norm <= 1e-7 * before) {
      column.zero_();
    } else {
      column.div_(norm);
    }
  }
  matrix.copy_(wide);
}

}  // namespace

PowerSgd::PowerSgd(FlatParameters& flat, Sharding& sharding, Options options)
    : flat_(flat),
      sharding_(sharding),
      options_(options),
      num_nodes_(sharding.communicator().placement().num_nodes),
      residuals_(flat, sharding, /*of_sums=*/false),
      requests_(flat.plan().buckets.size()) {
  for (std::size_t b = 0; b < flat.plan().buckets.size(); ++b) {
    for (const PlanItem& item : flat.plan().buckets[b].items) add_item(b, item);
  }
}

// Rows must be dense one after the other; and the factors must be smaller.
bool PowerSgd::is_matrix(const at::Tensor& tensor) const {
  if (tensor.dim() < 2) return false;
  const std::int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  return tensor.stride(0) == columns && (rows + columns) * options_.rank < tensor.numel();
}

void PowerSgd::add_item(std::size_t bucket, const PlanItem& item) {
  const auto parameter = static_cast<std::size_t>(item.parameter);
  const at::Tensor& tensor = flat_.parameters()[parameter].tensor;
  const auto begin = static_cast<std::size_t>(item.offset);
  const Part whole{.begin = begin, .end = begin + static_cast<std::size_t>(tensor.numel())};
  const Part part = intersection(whole, sharding_.part(flat_.plan().buckets[bucket].shard_offsets));
  if (!is_matrix(tensor)) {
    rests_.push_back({.bucket = bucket, .whole = whole, .part = part, .begin = rest_numel_});
    rest_numel_ += tensor.numel();
    return;
  }
  const std::int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  matrices_.push_back({.bucket = bucket,
                       .parameter = parameter,
                       .rows = rows,
                       .columns = columns,
                       .part = part,
                       .offset = item.offset,
                       .q = first_q(parameter, columns, options_.rank).to(tensor.device()),
                       .p_begin = p_rows_,
                       .q_begin = q_rows_,
                       .work = {}});
  p_rows_ += rows;
  q_rows_ += columns;
}

void PowerSgd::begin_step(std::int64_t step) {
  for (Request& request : requests_) request = {};
  compresses_ = step >= options_.start_step && num_nodes_ > 1;
}

void PowerSgd::post(std::size_t bucket) {
  const Span gradients = span_of(flat_.gradients(bucket));
  const auto& offsets = flat_.plan().buckets[bucket].shard_offsets;
  requests_[bucket] = compresses_ ? sharding_.reduce_in_node(gradients, offsets)
                                  : sharding_.reduce(gradients, offsets, {});
}

at::Tensor PowerSgd::residual(const Matrix& matrix) const {
  const Part own = sharding_.part(flat_.plan().buckets[matrix.bucket].shard_offsets);
  return narrow(residuals_.part(matrix.bucket),
                {.begin = matrix.part.begin - own.begin, .end = matrix.part.end - own.begin});
}

std::int64_t PowerSgd::first_row(const Matrix& matrix) const {
  return (static_cast<std::int64_t>(matrix.part.begin) - matrix.offset) / matrix.columns;
}

// The gradient with what was owed, which is then the residual until decompress().
void PowerSgd::load(Matrix& matrix) const {
  if (matrix.part.size() == 0) return;
  const auto begin = static_cast<std::int64_t>(matrix.part.begin) - matrix.offset;
  const auto end = static_cast<std::int64_t>(matrix.part.end) - matrix.offset;
  const std::int64_t first = first_row(matrix), last = (end + matrix.columns - 1) / matrix.columns;
  matrix.work = at::zeros({last - first, matrix.columns}, matrix.q.options());
  const at::Tensor residual = this->residual(matrix);
  residual.add_(narrow(flat_.gradients(matrix.bucket), matrix.part));
  matrix.work.view({-1}).narrow(0, begin - first * matrix.columns, end - begin).copy_(residual);
}

// Own rows of P Q' into the gradient; what they miss of the node's share stays in the residual.
void PowerSgd::decompress(Matrix& matrix, const at::Tensor& p, const at::Tensor& q) const {
  if (matrix.part.size() == 0) return;
  const std::int64_t first = first_row(matrix);
  const at::Tensor sum = at::matmul(p.narrow(0, first, matrix.work.size(0)), q.t());
  const at::Tensor piece = sum.view({-1}).narrow(
      0, static_cast<std::int64_t>(matrix.part.begin) - matrix.offset - first * matrix.columns,
      static_cast<std::int64_t>(matrix.part.size()));
  narrow(flat_.gradients(matrix.bucket), matrix.part).copy_(piece);
  residual(matrix).sub_(piece, 1 / num_nodes_);
  matrix.work = at::Tensor();
}

void PowerSgd::finish_step() {
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < requests_.size(); ++b) flat_.wait(requests_[b], "gradients", b);
  if (!compresses_) return;
  const std::int64_t rank = options_.rank;
  // P of all matrices, then what is summed exactly.
  const at::TensorOptions options = flat_.values(0).options();
  const at::Tensor numbers = at::zeros({p_rows_ * rank + rest_numel_}, options);
  const at::Tensor p = numbers.narrow(0, 0, p_rows_ * rank).view({p_rows_, rank});
  const at::Tensor rest = numbers.narrow(0, p_rows_ * rank, rest_numel_);
  const auto place = [&](const Rest& r) {
    return rest.narrow(0, r.begin + static_cast<std::int64_t>(r.part.begin - r.whole.begin),
                       static_cast<std::int64_t>(r.part.size()));
  };
  for (Matrix& matrix : matrices_) {
    load(matrix);
    if (!matrix.work.defined()) continue;
    p.narrow(0, matrix.p_begin + first_row(matrix), matrix.work.size(0))
        .copy_(at::matmul(matrix.work, matrix.q));
  }
  for (const Rest& r : rests_) place(r).copy_(narrow(flat_.gradients(r.bucket), r.part));
  in_phase("PowerSGD's left factors",
           [&] { sharding_.communicator().all_reduce(span_of(numbers)).wait(); });
  for (const Rest& r : rests_) narrow(flat_.gradients(r.bucket), r.part).copy_(place(r));

  const at::Tensor q = at::zeros({q_rows_, rank}, options);
  for (const Matrix& matrix : matrices_) {
    const at::Tensor own_p = p.narrow(0, matrix.p_begin, matrix.rows);
    orthonormalize(own_p);
    if (!matrix.work.defined()) continue;
    q.narrow(0, matrix.q_begin, matrix.columns)
        .copy_(
            at::matmul(matrix.work.t(), own_p.narrow(0, first_row(matrix), matrix.work.size(0))));
  }
  in_phase("PowerSGD's right factors",
           [&] { sharding_.communicator().all_reduce(span_of(q.view({-1}))).wait(); });
  for (Matrix& matrix : matrices_) {
    const at::Tensor new_q = q.narrow(0, matrix.q_begin, matrix.columns);
    decompress(matrix, p.narrow(0, matrix.p_begin, matrix.rows), new_q);
    // Of length one, so that no power of the gradient leaves the range of float32. A column that
    // found nothing this time starts from where it was the next time.
    for (std::int64_t c = 0; c < rank; ++c) {
      const at::Tensor column = new_q.select(1, c).to(at::kDouble);
      const auto norm = column.norm().item<double>();
      if (norm > 0) matrix.q.select(1, c).copy_(column.div(norm));
    }
  }
  finished_at_ = Clock::now();
}

void PowerSgd::visit_state(const Visit& visit) {
  residuals_.visit(visit);
  if (sharding_.communicator().rank() != 0) return;
  for (const Matrix& matrix : matrices_) visit("powersgd_q", matrix.parameter, matrix.q);
}

void PowerSgd::restore_state(const Fetch& fetch) {
  residuals_.restore(fetch);
  for (const Matrix& matrix : matrices_) {
    if (sharding_.communicator().rank() == 0) fetch("powersgd_q", matrix.parameter, matrix.q);
    sharding_.communicator().broadcast(span_of(matrix.q.view({-1})), 0).wait();
  }
}

}  // namespace trireme
