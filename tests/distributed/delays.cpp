// SPDX-License-Identifier: Apache-2.0
#include "delays.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace trireme::testing {
namespace {

std::atomic<long> pause_ns;  // for the handler; below a second

extern "C" void sleep_in_handler(int) {
  const int before = errno;
  const timespec length{.tv_sec = 0, .tv_nsec = pause_ns.load()};
  nanosleep(&length, nullptr);  // shorter is as good
  errno = before;
}

// As where the machine has other things to do: the threads that move data sleep, too.
void stop_all_threads(long nanoseconds) {
  pause_ns = nanoseconds;
  struct sigaction action = {};
  action.sa_handler = sleep_in_handler;
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGUSR2, &action, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "sigaction");
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t thread = std::stoi(task.path().filename().string());
    if (thread == gettid()) continue;
    if (tgkill(getpid(), thread, SIGUSR2) != 0 && errno != ESRCH)  // it has ended
      throw std::system_error(errno, std::generic_category(), "tgkill");
  }
  sleep_in_handler(SIGUSR2);
}

class LateOperation : public Operation {
 public:
  LateOperation(Request request, std::shared_ptr<Delays> delays)
      : request_(std::move(request)), delays_(std::move(delays)) {}
  bool test() override { return request_.test(); }
  void wait() override {
    delays_->pause();
    request_.wait();
  }
  void abandon() noexcept override { request_ = {}; }
  std::chrono::steady_clock::time_point completed_at() const override {
    return request_.completed_at();
  }

 private:
  Request request_;
  const std::shared_ptr<Delays> delays_;
};

}  // namespace

Delays::Delays(std::uint64_t seed, int rank)
    : is_late_((seed + static_cast<unsigned>(rank)) % 2 == 0),
      random_(seed * 1000 + static_cast<unsigned>(rank)) {}

void Delays::pause() {
  // Not by std::uniform_int_distribution, whose numbers differ between libraries.
  const std::uint64_t drawn = random_();
  if (!is_late_ || drawn % 3 != 0) return;
  stop_all_threads(static_cast<long>((drawn >> 8) % 4'000'000));
}

DelayedCommunicator::DelayedCommunicator(Communicator& inner, std::uint64_t seed)
    : ForwardingCommunicator(inner), delays_(std::make_shared<Delays>(seed, inner.rank())) {}

DelayedCommunicator::DelayedCommunicator(std::unique_ptr<Communicator> group,
                                         std::shared_ptr<Delays> delays)
    : ForwardingCommunicator(*group), own_(std::move(group)), delays_(std::move(delays)) {}

Request DelayedCommunicator::late(Request request) const {
  return Request(std::make_shared<LateOperation>(std::move(request), delays_));
}

Request DelayedCommunicator::all_reduce(Span data) {
  delays_->pause();
  return late(inner_.all_reduce(data));
}

Request DelayedCommunicator::reduce_scatter(Span data, std::span<const std::size_t> offsets) {
  delays_->pause();
  return late(inner_.reduce_scatter(data, offsets));
}

Request DelayedCommunicator::node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                                                 const Wire& wire) {
  delays_->pause();
  return late(inner_.node_reduce_scatter(data, offsets, wire));
}

Request DelayedCommunicator::all_gather(Span data, std::span<const std::size_t> offsets) {
  delays_->pause();
  return late(inner_.all_gather(data, offsets));
}

Request DelayedCommunicator::broadcast(Span data, int root) {
  delays_->pause();
  return late(inner_.broadcast(data, root));
}

std::vector<std::string> DelayedCommunicator::exchange(std::string_view bytes) {
  delays_->pause();
  return inner_.exchange(bytes);
}

void DelayedCommunicator::barrier() {
  delays_->pause();
  inner_.barrier();
}

std::unique_ptr<Communicator> DelayedCommunicator::split(int color, int key) {
  return std::unique_ptr<Communicator>(new DelayedCommunicator(inner_.split(color, key), delays_));
}

std::unique_ptr<Communicator> DelayedCommunicator::split_by_node() {
  return std::unique_ptr<Communicator>(new DelayedCommunicator(inner_.split_by_node(), delays_));
}

}  // namespace trireme::testing
