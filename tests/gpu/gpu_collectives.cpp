// SPDX-License-Identifier: Apache-2.0
// The collectives between real GPUs, one rank a GPU: each against what the ranks know the others
// gave, then their speed. A line a check; ends with 1 at the first that fails, on any rank. Run by
// scripts/gpu_check, alone or under mpirun.
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/local.hpp"
#include "comm/mpi.hpp"
#include "comm/nccl.hpp"
#include "trireme/error.hpp"

namespace trireme::testing {
namespace {

void check(cudaError_t code) {
  if (code != cudaSuccess) throw EnvironmentError(cudaGetErrorString(code));
}

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::kI64;
  return DType::kU8;
}

// What `rank` gives at `index`.
template <class T>
T value(int rank, std::size_t index) {
  const auto mixed = static_cast<std::uint32_t>(index * 2654435761u + 40503u * unsigned(rank) + 7u);
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(mixed % 20011u) / 10007 - 1;
  return static_cast<T>(mixed);
}

// Sums of whole numbers are exact. Others may round once an addition, whatever their order.
template <class T>
bool is_sum(T actual, int ranks, std::size_t index) {
  T sum = 0, magnitude = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    sum = static_cast<T>(sum + value<T>(rank, index));
    if constexpr (std::is_floating_point_v<T>) magnitude += std::abs(value<T>(rank, index));
  }
  if constexpr (!std::is_floating_point_v<T>) return actual == sum;
  const T rounding = static_cast<T>(ranks) * std::numeric_limits<T>::epsilon();
  return std::abs(actual - sum) <= 2 * rounding * magnitude;
}

// One rank's data on its GPU, filled with its values; results come back through the compute stream.
template <class T>
class OnGpu {
 public:
  OnGpu(Communicator& gpus, std::size_t count)
      : host_(count), memory_(gpus.allocate(count * sizeof(T))) {
    for (std::size_t i = 0; i < count; ++i) host_[i] = value<T>(gpus.rank(), i);
    if (count == 0) return;
    check(cudaMemcpy(memory_.data(), host_.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  }
  Span span() const { return {memory_.data(), host_.size(), dtype_of<T>()}; }
  const std::vector<T>& read() {
    if (host_.empty()) return host_;
    check(
        cudaMemcpy(host_.data(), memory_.data(), host_.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return host_;
  }

 private:
  std::vector<T> host_;
  Buffer memory_;
};

void require(bool holds, const std::string& what, std::size_t element = 0) {
  if (!holds) throw CommError("wrong: " + what + ", element " + std::to_string(element));
}

template <class T>
void require_sums(const std::vector<T>& data, std::size_t begin, std::size_t end, int ranks,
                  const std::string& what) {
  for (std::size_t i = begin; i < end; ++i) require(is_sum(data[i], ranks, i), what, i);
}

template <class T>
void require_values(const std::vector<T>& data, std::size_t begin, std::size_t end, int rank,
                    const std::string& what) {
  for (std::size_t i = begin; i < end; ++i) require(data[i] == value<T>(rank, i), what, i);
}

using Offsets = std::vector<std::size_t>;  // [ranks + 1]

// Equal parts; growing ones, of which the first is empty.
std::vector<Offsets> ways_to_cut(std::size_t part, int ranks) {
  Offsets equal{0}, growing{0};
  for (int rank = 0; rank < ranks; ++rank) {
    equal.push_back(equal.back() + part);
    growing.push_back(growing.back() + part * static_cast<std::size_t>(rank));
  }
  return {equal, growing};
}

template <class T>
void check_sums(Communicator& gpus) {
  for (const std::size_t count : {0u, 1u, 1000u, 1000003u}) {
    OnGpu<T> data(gpus, count);
    gpus.all_reduce(data.span()).wait();
    require_sums(data.read(), 0, count, gpus.size(), "all_reduce");
    if (count > 1000) continue;
    for (const Offsets& offsets : ways_to_cut(count, gpus.size())) {
      OnGpu<T> parts(gpus, offsets.back());
      gpus.reduce_scatter(parts.span(), offsets).wait();
      const auto rank = static_cast<std::size_t>(gpus.rank());
      require_sums(parts.read(), offsets[rank], offsets[rank + 1], gpus.size(), "reduce_scatter");
    }
  }
}

template <class T>
void check_copies(Communicator& gpus) {
  for (const std::size_t count : {1u, 1000u}) {
    for (const Offsets& offsets : ways_to_cut(count, gpus.size())) {
      OnGpu<T> data(gpus, offsets.back());
      gpus.all_gather(data.span(), offsets).wait();
      for (int rank = 0; rank < gpus.size(); ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        require_values(data.read(), offsets[r], offsets[r + 1], rank, "all_gather");
      }
    }
    for (int root = 0; root < gpus.size(); ++root) {
      OnGpu<T> data(gpus, count);
      gpus.broadcast(data.span(), root).wait();
      require_values(data.read(), 0, count, root, "broadcast");
    }
  }
}

// Two groups, posted in opposite orders on odd ranks; a split group counts its own members.
void check_groups(Communicator& gpus) {
  const auto half = gpus.split(gpus.rank() % 2, gpus.rank());
  OnGpu<std::int64_t> all(gpus, 1000), mine(*half, 1000);
  Request first, second;
  if (gpus.rank() % 2 == 0) first = gpus.all_reduce(all.span());
  second = half->all_reduce(mine.span());
  if (gpus.rank() % 2 == 1) first = gpus.all_reduce(all.span());
  first.wait();
  second.wait();
  require_sums(all.read(), 0, 1000, gpus.size(), "all_reduce beside another group's");
  require_sums(mine.read(), 0, 1000, half->size(), "all_reduce in a split group");
}

// In order: mark, operation, mark; and all of it between two looks at the host's clock.
void check_times(Communicator& gpus) {
  const auto before = std::chrono::steady_clock::now();
  OnGpu<float> data(gpus, 1 << 20);
  Request first = gpus.mark();
  Request request = gpus.all_reduce(data.span());
  request.wait();
  Request last = gpus.mark();
  const auto a = first.completed_at(), b = request.completed_at(), c = last.completed_at();
  const auto after = std::chrono::steady_clock::now();
  const auto slack = std::chrono::milliseconds(1);  // between the two clocks
  require(a <= b && b <= c, "the order of completion times");
  require(a + slack >= before && c <= after + slack, "completion times by the host's clock");
}

void measure(Communicator& gpus) {
  constexpr int kRounds = 20;
  for (const std::size_t megabytes : {1u, 16u, 64u}) {
    const std::size_t size_bytes = megabytes << 20;
    OnGpu<float> data(gpus, size_bytes / sizeof(float));
    gpus.all_reduce(data.span()).wait();
    Request start = gpus.mark();
    for (int i = 0; i < kRounds; ++i) gpus.all_reduce(data.span()).wait();
    Request end = gpus.mark();
    const double seconds =
        std::chrono::duration<double>(end.completed_at() - start.completed_at()).count() / kRounds;
    if (gpus.rank() != 0) continue;
    std::printf("speed: all_reduce of %zu MiB on %d GPUs: %.0f us, %.1f GB/s\n", megabytes,
                gpus.size(), seconds * 1e6, static_cast<double>(size_bytes) / seconds / 1e9);
  }
}

void run(Communicator& world) {
  int visible = 0;
  check(cudaGetDeviceCount(&visible));
  const int device = visible == 1 ? 0 : world.split_by_node()->rank();
  const auto gpus =
      make_nccl_communicator(world.split(0, world.rank()),
                             {.device = device,
                              .timeout = std::chrono::seconds(60),
                              .on_failure = [](const std::string& reason) {
                                std::fprintf(stderr, "gpu_collectives: %s\n", reason.c_str());
                                std::_Exit(static_cast<int>(ExitCode::kCommunication));
                              }});
  const auto passed = [&](const char* what) {
    gpus->barrier();
    if (gpus->rank() == 0) std::printf("ok: %s, ranks: %d\n", what, gpus->size());
  };
  check_sums<std::int64_t>(*gpus);
  passed("sums of whole numbers, exact");
  check_sums<float>(*gpus);
  check_sums<double>(*gpus);
  passed("sums of fp32 and fp64, within rounding");
  check_copies<std::uint8_t>(*gpus);
  check_copies<std::int64_t>(*gpus);
  check_copies<float>(*gpus);
  check_copies<double>(*gpus);
  passed("all_gather and broadcast, bit for bit");
  check_groups(*gpus);
  passed("groups beside each other");
  check_times(*gpus);
  passed("times of completion");
  measure(*gpus);
}

}  // namespace
}  // namespace trireme::testing

int main() {
  std::unique_ptr<trireme::MpiEnvironment> mpi;
  try {
    if (trireme::MpiEnvironment::launched()) mpi = std::make_unique<trireme::MpiEnvironment>();
    const auto world = mpi ? mpi->world() : trireme::make_local_communicator();
    world->set_timeout(std::chrono::seconds(60));
    trireme::testing::run(*world);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_collectives: %s\n", error.what());
    if (mpi) mpi->abort(1);
    return 1;
  }
  if (mpi) mpi->finalize();
  return 0;
}
