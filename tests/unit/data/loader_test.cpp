// SPDX-License-Identifier: Apache-2.0
#include "data/loader.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "support.hpp"

namespace trireme {
namespace {

using test::as;
using test::CountingImages;
using test::message_of;
using testing::HasSubstr;

struct Recording {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<std::vector<std::byte>> inputs, targets;
  bool operator==(const Recording&) const = default;
};

const AugmentOptions kAugment{.flip = "random", .crop_padding = 1, .seed = 4};

Loader make_loader(std::shared_ptr<const Dataset> dataset, const Loader::Settings& settings,
                   std::int64_t end_step, std::int64_t global_batch = 20) {
  const Sampler sampler(
      {.num_samples = dataset->size(), .global_batch = global_batch, .micro_batch = 9, .seed = 4});
  return Loader(std::move(dataset), sampler, settings, 0, end_step);
}

Recording load(std::int64_t workers, std::int64_t prefetch) {
  Loader loader = make_loader(std::make_shared<CountingImages>(50),
                              {.augment = kAugment, .workers = workers, .prefetch = prefetch}, 6);
  Recording run;
  for (int i = 0; i < 2 * (3 + 3 + 2); ++i) {  // two epochs of batches 20, 20, 10 in pieces of 9
    HostBatch batch = loader.next();
    EXPECT_EQ(batch.samples, static_cast<std::int64_t>(batch.sample_ids.size()));
    run.ids.push_back(batch.sample_ids);
    run.inputs.push_back(batch.input);
    run.targets.push_back(batch.target);
  }
  EXPECT_THROW(loader.next(), InternalError);
  return run;
}

TEST(Loader, GivesTheSameForAnyNumberOfWorkersAndAnyLookAhead) {
  const Recording expected = load(1, 1);
  for (const std::int64_t workers : {1, 2, 5}) {
    for (const std::int64_t prefetch : {1, 4}) {
      EXPECT_EQ(load(workers, prefetch), expected) << workers << ' ' << prefetch;
    }
  }
}

TEST(Loader, GivesWhatSamplerAndAugmenterSay) {
  const CountingImages images(50);
  const Recording run = load(2, 2);
  const Augmenter augmenter(images.spec(), kAugment);
  const Sampler sampler({.num_samples = 50, .global_batch = 20, .micro_batch = 9, .seed = 4});
  std::size_t at = 0;
  for (std::int64_t step = 0; step < 6; ++step) {
    for (const auto& ids : sampler.micro_batches(step)) {
      ASSERT_EQ(run.ids[at], ids);
      EXPECT_EQ(as<std::int64_t>(run.targets[at]), ids);
      for (std::size_t row = 0; row < ids.size(); ++row) {
        std::vector<std::byte> expected(augmenter.output_bytes());
        augmenter.apply(test::read(images, ids[row]).input, step / 3, ids[row], expected);
        EXPECT_TRUE(std::equal(
            expected.begin(), expected.end(),
            run.inputs[at].begin() + static_cast<std::ptrdiff_t>(row * expected.size())));
      }
      ++at;
    }
  }
}

// The images of two epochs that one rank of `world` gets.
void collect_images(int rank, int world, std::multiset<std::vector<float>>& images) {
  const Sampler sampler(
      {.num_samples = 10, .global_batch = 4, .seed = 4, .rank = rank, .world_size = world});
  std::size_t batches = 0;
  for (std::int64_t step = 0; step < 6; ++step) {
    batches += sampler.micro_batches(step).size();
  }
  Loader loader(std::make_shared<CountingImages>(10), sampler, {.augment = kAugment}, 0, 6);
  for (; batches > 0; --batches) {
    const std::vector<float> pixels = as<float>(loader.next().input);
    for (auto at = pixels.begin(); at != pixels.end(); at += 4) {
      images.emplace(at, at + 4);
    }
  }
  EXPECT_THROW(loader.next(), InternalError);
}

TEST(Loader, RanksTogetherGiveWhatOneRankGives) {
  std::multiset<std::vector<float>> alone, together;
  collect_images(0, 1, alone);
  for (int rank = 0; rank < 5; ++rank) {
    collect_images(rank, 5, together);
  }
  EXPECT_EQ(alone.size(), 20U);
  EXPECT_EQ(together, alone);
}

TEST(Loader, StartsInTheMiddleAsIfItHadRunUpToThere) {
  const Recording whole = load(1, 1);
  const auto images = std::make_shared<CountingImages>(50);
  const Sampler sampler({.num_samples = 50, .global_batch = 20, .micro_batch = 9, .seed = 4});
  Loader loader(images, sampler, {.augment = kAugment}, 4, 6);  // in the second epoch
  for (std::size_t at = 11; at < 16; ++at) {
    const HostBatch batch = loader.next();
    EXPECT_EQ(batch.sample_ids, whole.ids[at]);
    EXPECT_EQ(batch.input, whole.inputs[at]);
  }
}

TEST(Loader, ThrowsTheErrorOfTheFirstBadRowWhenItsBatchIsDueAndGoesOn) {
  for (const std::int64_t workers : {1, 4}) {
    const auto images = std::make_shared<CountingImages>(
        60, std::vector<std::int64_t>{1, 2, 2}, [](std::int64_t index) {
          if (index == 27 || index == 39) {
            throw DataError("sample " + std::to_string(index) + " is bad");
          }
        });
    const Sampler in_order({.num_samples = 60, .global_batch = 20, .shuffle = false});
    Loader loader(images, in_order, {.workers = workers, .prefetch = 3}, 0, 3);
    EXPECT_EQ(loader.next().sample_ids.front(), 0);
    EXPECT_EQ(message_of<DataError>([&] { loader.next(); }), "sample 27 is bad");
    EXPECT_EQ(loader.next().sample_ids.front(), 40);
  }
}

TEST(Loader, NamesTheSampleOfAnExceptionThatIsNotTriremes) {
  const auto images =
      std::make_shared<CountingImages>(5, std::vector<std::int64_t>{1, 2, 2}, [](std::int64_t i) {
        if (i == 3) throw std::runtime_error("the disk is on fire");
      });
  Loader loader = make_loader(images, {}, 1);
  const std::string message = message_of<DataError>([&] { loader.next(); });
  EXPECT_EQ(message, "cannot read sample 3 (counting image 3): the disk is on fire");
}

TEST(Loader, LeavesExhaustedMemoryWhatItIs) {
  const auto images = std::make_shared<CountingImages>(
      5, std::vector<std::int64_t>{1, 2, 2}, [](std::int64_t) { throw std::bad_alloc(); });
  Loader loader = make_loader(images, {}, 1);
  EXPECT_THROW(loader.next(), std::bad_alloc);
}

TEST(Loader, RefusesClassesOutOfRange) {
  Loader loader = make_loader(std::make_shared<CountingImages>(1001), {}, 1, 1001);
  const std::string message = message_of<DataError>([&] {
    for (int i = 0; i < 112; ++i) loader.next();
  });
  EXPECT_EQ(message, "sample 1000 (counting image 1000) has the target 1000, expected 0 to 999");
}

// A data set whose reads wait until they are let through.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for_arrivals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

TEST(Loader, SeveralWorkersShareOneMicroBatch) {
  Gate gate;
  const auto images = std::make_shared<CountingImages>(64, std::vector<std::int64_t>{1, 2, 2},
                                                       [&](std::int64_t) { gate.pass(); });
  const Sampler sampler({.num_samples = 64, .global_batch = 64});
  Loader loader(images, sampler, {.workers = 3, .prefetch = 1}, 0, 1);
  gate.wait_for_arrivals(3);  // hangs where one worker takes all of it
  gate.open();
  EXPECT_EQ(loader.next().samples, 64);
}

TEST(Loader, DecodesNoFurtherAheadThanAsked) {
  std::mutex mutex;
  std::int64_t highest = 0;
  const auto images = std::make_shared<CountingImages>(100, std::vector<std::int64_t>{1, 2, 2},
                                                       [&](std::int64_t index) {
                                                         const std::scoped_lock lock(mutex);
                                                         highest = std::max(highest, index);
                                                       });
  const Sampler in_order({.num_samples = 100, .global_batch = 10, .shuffle = false});
  {
    Loader loader(images, in_order, {.workers = 4, .prefetch = 2}, 0, 10);
    loader.next();
  }
  EXPECT_LT(highest, 30);  // the one taken, and two ahead
}

TEST(Loader, IsDestroyedWhileBatchesAreBeingDecodedOrNeverTaken) {
  for (int i = 0; i < 20; ++i) {
    Loader loader = make_loader(std::make_shared<CountingImages>(500), {.workers = 4}, 30);
    if (i % 2 == 0) loader.next();
  }
}

TEST(Loader, DoesNotFinishABatchBeforeItIsDestroyed) {
  Gate gate;
  std::atomic<int> reads = 0;
  const auto images = std::make_shared<CountingImages>(10000, std::vector<std::int64_t>{1, 2, 2},
                                                       [&](std::int64_t) {
                                                         ++reads;
                                                         gate.pass();
                                                       });
  const Sampler sampler({.num_samples = 10000, .global_batch = 10000});
  auto loader = std::make_unique<Loader>(images, sampler, Loader::Settings{}, 0, 1);
  gate.wait_for_arrivals(1);
  std::jthread destroyer([&] { loader.reset(); });
  gate.open();
  destroyer.join();
  EXPECT_LT(reads, 10000);
}

TEST(Loader, CountsHowLongItWaited) {
  Gate gate;
  const auto images = std::make_shared<CountingImages>(1, std::vector<std::int64_t>{1, 2, 2},
                                                       [&](std::int64_t) { gate.pass(); });
  Loader loader = make_loader(images, {}, 1);
  EXPECT_EQ(loader.waited_ms(), 0.0);
  std::jthread opener([&] {
    gate.wait_for_arrivals(1);
    gate.open();
  });
  loader.next();
  EXPECT_GT(loader.waited_ms(), 0.0);
}

TEST(Loader, RefusesToAugmentWhatIsNoImage) {
  const auto features = test::make(synthetic(), {}, {{"shape", std::vector<std::int64_t>{4}}});
  for (const AugmentOptions& augment :
       {AugmentOptions{.mean = {.5}}, AugmentOptions{.std = {.5}}, AugmentOptions{.flip = "random"},
        AugmentOptions{.crop_padding = 1}}) {
    const std::string message =
        message_of<ConfigError>([&] { make_loader(features, {.augment = augment}, 1); });
    EXPECT_THAT(message, HasSubstr("are for images"));
  }
}

TEST(Loader, HandsOverWhatIsNoImageAsItIs) {
  const auto features = test::make(synthetic(), {}, {{"shape", std::vector<std::int64_t>{4}}});
  Loader loader = make_loader(features, {}, 1);
  const HostBatch batch = loader.next();
  const test::Sample first = test::read(*features, batch.sample_ids[0]);
  EXPECT_TRUE(std::equal(first.input.begin(), first.input.end(), batch.input.begin()));
}

TEST(ReadBatch, NormalisesAndDoesNotAugment) {
  const CountingImages images(100, {1, 3, 3});
  const std::vector<std::int64_t> ids = {5, 5, 90, 2};
  AugmentOptions options = kAugment;
  options.mean = {.5};
  const HostBatch batch = read_batch(images, ids, options);
  EXPECT_EQ(batch.samples, 4);
  EXPECT_EQ(batch.sample_ids, ids);
  EXPECT_EQ(as<std::int64_t>(batch.target), ids);
  const auto values = as<float>(batch.input);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    for (std::size_t i = 0; i < 9; ++i) {
      const int byte = test::read(images, ids[row]).byte(i);
      EXPECT_EQ(values[row * 9 + i], static_cast<float>(byte) / 255.0F - .5F);
    }
  }
}

}  // namespace
}  // namespace trireme
