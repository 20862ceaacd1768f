// SPDX-License-Identifier: Apache-2.0
#include "data/loader.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/inject.hpp"
#include "data/row_decoder.hpp"

namespace trireme {
namespace {

// Rows that a worker takes at once: enough to make the lock cheap, few enough that the destructor
// does not wait long.
constexpr std::size_t kRowsPerClaim = 8;

void prepare(HostBatch& batch, std::vector<std::int64_t> ids, const RowDecoder& decoder) {
  batch.samples = static_cast<std::int64_t>(ids.size());
  batch.input.resize(ids.size() * decoder.input_bytes());
  batch.target.resize(ids.size() * decoder.target_bytes());
  batch.sample_ids = std::move(ids);
}

void decode_row(const RowDecoder& decoder, HostBatch& batch, std::size_t row,
                std::optional<std::int64_t> epoch, std::vector<std::byte>& scratch) {
  const std::size_t in = decoder.input_bytes();
  const std::size_t out = decoder.target_bytes();
  decoder.decode(batch.sample_ids[row], epoch, std::span(batch.input).subspan(row * in, in),
                 std::span(batch.target).subspan(row * out, out), scratch);
}

// A micro-batch being decoded.
struct Slot {
  HostBatch batch;
  std::int64_t epoch = 0;
  std::size_t rows = 0;
  std::size_t claimed = 0;  // rows that a worker has taken
  std::size_t decoded = 0;  // rows that are done, with or without an error
  std::exception_ptr error;
  std::size_t error_row = 0;  // the lowest row that failed, whoever was first

  bool ready() const { return decoded == rows; }
  void fail(std::size_t row, std::exception_ptr what) {
    if (!error || row < error_row) {
      error = std::move(what);
      error_row = row;
    }
  }
};

}  // namespace

struct Loader::State {
  State(std::shared_ptr<const Dataset> source, Sampler order, const Settings& settings,
        std::int64_t first_step, std::int64_t last_step)
      : dataset(std::move(source)),
        decoder(*dataset, settings.augment),
        prefetch(static_cast<std::size_t>(settings.prefetch)),
        sampler(std::move(order)),
        step(first_step),
        end_step(last_step) {}

  // Of the thread that calls next(): its exceptions reach the caller without a detour.
  void top_up();  // opens micro-batches until `prefetch` are open or none is left
  std::unique_ptr<Slot> open_slot();  // null where none is left

  // Of the workers.
  void work(const std::stop_token& stop);
  Slot* claimable() const;
  void decode_claim(Slot& slot, std::unique_lock<std::mutex>& lock,
                    std::vector<std::byte>& scratch);

  const std::shared_ptr<const Dataset> dataset;
  const RowDecoder decoder;
  const std::size_t prefetch;

  // Of the thread that calls next().
  Sampler sampler;
  std::int64_t step, end_step;                     // the next step to open
  std::deque<std::vector<std::int64_t>> unopened;  // micro-batches left of the step before it
  std::chrono::steady_clock::duration waited{};

  std::mutex mutex;  // guards slots and all in them but the rows that a worker has claimed
  std::condition_variable_any rows_added, rows_decoded;
  std::deque<std::unique_ptr<Slot>> slots;  // in order: the front one is delivered next

  std::vector<std::jthread> threads;  // last: stopped and joined before what they use is gone
};

void Loader::State::top_up() {
  while (slots.size() < prefetch) {  // no lock: only this thread adds and removes slots
    std::unique_ptr<Slot> slot = open_slot();
    if (!slot) {
      return;
    }
    const std::scoped_lock lock(mutex);
    slots.push_back(std::move(slot));
    rows_added.notify_all();
  }
}

std::unique_ptr<Slot> Loader::State::open_slot() {
  while (unopened.empty()) {
    if (step == end_step) {
      return nullptr;
    }
    for (auto& ids : sampler.micro_batches(step)) {
      unopened.push_back(std::move(ids));
    }
    ++step;
  }
  auto slot = std::make_unique<Slot>();
  slot->epoch = (step - 1) / sampler.steps_per_epoch();
  slot->rows = unopened.front().size();
  prepare(slot->batch, std::move(unopened.front()), decoder);
  unopened.pop_front();
  return slot;
}

void Loader::State::work(const std::stop_token& stop) {
  std::vector<std::byte> scratch;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    Slot* slot = nullptr;
    if (!rows_added.wait(lock, stop, [&] { return (slot = claimable()) != nullptr; })) {
      return;
    }
    decode_claim(*slot, lock, scratch);
  }
}

Slot* Loader::State::claimable() const {
  const auto found = std::find_if(slots.begin(), slots.end(),
                                  [](const auto& slot) { return slot->claimed < slot->rows; });
  return found == slots.end() ? nullptr : found->get();
}

void Loader::State::decode_claim(Slot& slot, std::unique_lock<std::mutex>& lock,
                                 std::vector<std::byte>& scratch) {
  const std::size_t begin = slot.claimed;
  const std::size_t end = std::min(begin + kRowsPerClaim, slot.rows);
  slot.claimed = end;
  lock.unlock();
  std::exception_ptr error;
  std::size_t row = begin;
  try {
    for (; row < end; ++row) {
      fault_point(FaultPoint::kDataDecode);
      decode_row(decoder, slot.batch, row, slot.epoch, scratch);
    }
  } catch (...) {  // next() throws it in the caller's thread
    error = std::current_exception();
  }
  lock.lock();
  if (error) {
    slot.fail(row, std::move(error));
  }
  slot.decoded += end - begin;
  if (slot.ready()) {
    rows_decoded.notify_all();
  }
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const Settings& settings,
               std::int64_t first_step, std::int64_t end_step) {
  TRIREME_ASSERT(settings.workers >= 1 && settings.prefetch >= 1, "workers and prefetch are >= 1");
  TRIREME_ASSERT(0 <= first_step && first_step <= end_step, "steps ascend from 0");
  state_ = std::make_unique<State>(std::move(dataset), std::move(sampler), settings, first_step,
                                   end_step);
  state_->top_up();
  for (std::int64_t i = 0; i < settings.workers; ++i) {
    state_->threads.emplace_back(
        [state = state_.get()](const std::stop_token& stop) { state->work(stop); });
  }
}

Loader::~Loader() = default;

HostBatch Loader::next() {
  TRIREME_ASSERT(!state_->slots.empty(), "the loader has no more micro-batches");
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(state_->mutex);
  const Slot* front = state_->slots.front().get();
  state_->rows_decoded.wait(lock, [&] { return front->ready(); });
  const std::unique_ptr<Slot> slot = std::move(state_->slots.front());
  state_->slots.pop_front();
  lock.unlock();
  state_->waited += std::chrono::steady_clock::now() - start;
  state_->top_up();
  if (slot->error) {
    std::rethrow_exception(slot->error);
  }
  return std::move(slot->batch);
}

double Loader::waited_ms() const {
  return std::chrono::duration<double, std::milli>(state_->waited).count();
}

HostBatch read_batch(const Dataset& dataset, std::span<const std::int64_t> samples,
                     const AugmentOptions& normalise) {
  const RowDecoder decoder(dataset, without_augmentation(normalise));
  HostBatch batch;
  prepare(batch, {samples.begin(), samples.end()}, decoder);
  std::vector<std::byte> scratch;
  for (std::size_t row = 0; row < batch.sample_ids.size(); ++row) {
    decode_row(decoder, batch, row, std::nullopt, scratch);
  }
  return batch;
}

}  // namespace trireme
