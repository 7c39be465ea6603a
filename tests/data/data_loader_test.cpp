#include "binade/data/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/base/execution.h"
#include "binade/base/random.h"
#include "binade/base/restore.h"
#include "binade/ops/create/create.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Sample i is {[i, i], i * i}.
class Squares : public Dataset {
 public:
  explicit Squares(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Sample get(int64_t index) const override {
    const auto value = static_cast<double>(index);
    return {tensor({value, value}, {2}), tensor(index * index)};
  }

 private:
  int64_t size_;
};

std::vector<int64_t> indices_of(const Sample& batch) {
  std::vector<int64_t> indices;
  const auto values = to_vector(batch.at(0));
  for (size_t i = 0; i < values.size(); i += 2) indices.push_back(static_cast<int64_t>(values[i]));
  return indices;
}

using Epochs = std::vector<std::vector<std::vector<int64_t>>>;

Epochs read(DataLoader& loader, int epochs) {
  Epochs result;
  for (int i = 0; i < epochs; ++i) {
    result.emplace_back();
    for (const Sample& batch : loader) result.back().push_back(indices_of(batch));
  }
  return result;
}

std::shared_ptr<const Dataset> squares(int64_t size) { return std::make_shared<Squares>(size); }

TEST(DataLoader, StacksSamplesInOrder) {
  DataLoader loader(squares(7), {.batch = 3});
  EXPECT_EQ(loader.size(), 3);
  std::vector<Sample> batches;
  for (const Sample& batch : loader) batches.push_back(batch);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[0][0].shape(), (Shape{3, 2}));
  EXPECT_THAT(to_vector(batches[1][0]), ElementsAre(3, 3, 4, 4, 5, 5));
  EXPECT_THAT(to_vector(batches[1][1]), ElementsAre(9, 16, 25));
  EXPECT_EQ(batches[1][1].dtype(), DType::i64);
  EXPECT_THAT(indices_of(batches[2]), ElementsAre(6));
}

TEST(DataLoader, DropsAShortLastBatch) {
  DataLoader loader(squares(7), {.batch = 3, .drop_last = true});
  EXPECT_EQ(loader.size(), 2);
  EXPECT_EQ(read(loader, 1)[0].size(), 2u);
}

TEST(DataLoader, ShufflesEverySampleOnceByEpochAndSeed) {
  DataLoader loader(squares(100), {.batch = 7, .shuffle = true, .seed = 5}),
      same(squares(100), {.batch = 7, .shuffle = true, .seed = 5}),
      other(squares(100), {.batch = 7, .shuffle = true, .seed = 6});
  const Epochs epochs = read(loader, 3);
  for (const auto& epoch : epochs) {
    std::set<int64_t> seen;
    for (const auto& batch : epoch) seen.insert(batch.begin(), batch.end());
    EXPECT_EQ(seen.size(), 100u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_EQ(read(same, 3), epochs);
  EXPECT_NE(read(other, 1)[0], epochs[0]);
}

// Each sample is equally likely at each position: 2000 epochs of 5 samples. Five standard errors of
// a count with probability 1/5.
TEST(DataLoader, ShufflesEvenly) {
  DataLoader loader(squares(5), {.batch = 5, .shuffle = true, .seed = 1});
  int counts[5][5] = {};
  for (const auto& epoch : read(loader, 2000)) {
    for (size_t at = 0; at < 5; ++at) ++counts[at][epoch[0][at]];
  }
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, 400, 5 * std::sqrt(2000 * 0.2 * 0.8));
  }
}

TEST(DataLoader, GivesTheSameBatchesForAnyNumberOfWorkers) {
  const auto with = [](int workers, int64_t prefetch) {
    DataLoader loader(
        squares(53),
        {.batch = 4, .shuffle = true, .seed = 9, .workers = workers, .prefetch = prefetch});
    return read(loader, 4);
  };
  const Epochs expected = with(0, 1);
  EXPECT_EQ(with(1, 1), expected);
  EXPECT_EQ(with(3, 1), expected);
  EXPECT_EQ(with(4, 5), expected);
}

// Noise that get() draws.
class Noisy : public Squares {
 public:
  using Squares::Squares;
  Sample get(int64_t index) const override {
    return {tensor({static_cast<double>(index), 0.0}, {2}), rand({2})};
  }
};

TEST(DataLoader, RandomNumbersOfASampleDoNotDependOnWorkers) {
  const auto with = [](int workers) {
    DataLoader loader(std::make_shared<Noisy>(20),
                      {.batch = 3, .shuffle = true, .seed = 2, .workers = workers});
    std::vector<double> all;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const Sample& batch : loader) {
        const auto values = to_vector(batch[1]);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  };
  random::begin_step(7, 7);
  const auto before = random::context().next_stream;
  const auto expected = with(0);
  EXPECT_EQ(random::context().next_stream, before);  // the caller's stream is as it was
  EXPECT_EQ(random::context().seed, 7u);
  EXPECT_EQ(with(3), expected);
  // All of them differ, in both epochs.
  EXPECT_EQ(std::set<double>(expected.begin(), expected.end()).size(), expected.size());
}

TEST(DataLoader, ContinuesFromAPosition) {
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options{.batch = 4, .shuffle = true, .seed = 3, .workers = workers};
    DataLoader whole(squares(21), options);
    const Epochs expected = read(whole, 3);
    DataLoader first(squares(21), options);
    read(first, 1);
    for (int i = 0; i < 2; ++i) first.next();
    const DataLoader::Position stopped = first.position();
    EXPECT_EQ(stopped, (DataLoader::Position{1, 2}));

    DataLoader second(squares(21), options);
    second.next();
    second.seek(stopped);
    Epochs rest = read(second, 2);
    EXPECT_EQ(rest[0], Epochs::value_type(expected[1].begin() + 2, expected[1].end()));
    EXPECT_EQ(rest[1], expected[2]);
    // A loop that was left continues, too.
    rest = read(first, 2);
    EXPECT_EQ(rest[0], Epochs::value_type(expected[1].begin() + 2, expected[1].end()));
    EXPECT_EQ(rest[1], expected[2]);
  }
}

TEST(DataLoader, EndsAnEpochOnce) {
  for (const int workers : {0, 2}) {
    DataLoader loader(squares(2), {.batch = 1, .workers = workers});
    EXPECT_TRUE(loader.next());
    EXPECT_TRUE(loader.next());
    EXPECT_EQ(loader.position(), (DataLoader::Position{0, 2}));
    EXPECT_FALSE(loader.next());
    EXPECT_EQ(loader.position(), (DataLoader::Position{1, 0}));
    EXPECT_TRUE(loader.next());
  }
}

class Failing : public Squares {
 public:
  using Squares::Squares;
  Sample get(int64_t index) const override {
    if (index == 5) throw std::runtime_error("sample 5 is damaged");
    return Squares::get(index);
  }
};

// The batches before a damaged sample arrive, and those after it.
TEST(DataLoader, ThrowsWhatGetThrew) {
  for (const int workers : {0, 3}) {
    DataLoader loader(std::make_shared<Failing>(9), {.batch = 2, .workers = workers});
    EXPECT_THAT(indices_of(*loader.next()), ElementsAre(0, 1));
    EXPECT_THAT(indices_of(*loader.next()), ElementsAre(2, 3));
    EXPECT_THAT([&] { loader.next(); },
                ThrowsMessage<std::runtime_error>(HasSubstr("sample 5 is damaged")));
    EXPECT_THAT(indices_of(*loader.next()), ElementsAre(6, 7));
  }
}

class Counting : public Squares {
 public:
  using Squares::Squares;
  Sample get(int64_t index) const override {
    ++calls;
    return Squares::get(index);
  }
  mutable std::atomic<int> calls = 0;
};

TEST(DataLoader, PreparesNoMoreThanItsPrefetch) {
  const auto dataset = std::make_shared<Counting>(1000);
  {
    DataLoader loader(dataset, {.batch = 1, .workers = 2, .prefetch = 3});
    for (int i = 0; i < 10; ++i) loader.next();
  }  // its workers have ended
  EXPECT_GE(dataset->calls, 10);
  EXPECT_LE(dataset->calls, 10 + 6);
}

TEST(DataLoader, CollatesAsTold) {
  DataLoader loader(squares(4), {.batch = 2, .collate = [](const std::vector<Sample>& samples) {
                                   return Sample{tensor(static_cast<int64_t>(samples.size()))};
                                 }});
  EXPECT_EQ((*loader.next())[0].item(), 2);
}

class Uneven : public Squares {
 public:
  using Squares::Squares;
  Sample get(int64_t index) const override {
    return index == 0 ? Sample{tensor(1.0)} : Sample{tensor(1.0), tensor(2.0)};
  }
};

TEST(DataLoader, RefusesBadInput) {
  EXPECT_THAT(test::error_of([] { DataLoader(squares(0), {}); }), HasSubstr("samples"));
  EXPECT_THAT(test::error_of([] { DataLoader(squares(3), {.batch = 4, .drop_last = true}); }),
              HasSubstr("full batch"));
  EXPECT_THROW(DataLoader(squares(3), {.batch = 0}), Error);
  EXPECT_THROW(DataLoader(squares(3), {.workers = -1}), Error);
  EXPECT_THROW(DataLoader(squares(3), {.prefetch = 0}), Error);
  EXPECT_THROW(DataLoader(nullptr, {}), Error);
  EXPECT_THROW(DataLoader(squares(3), {.collate = nullptr}), Error);
  DataLoader loader(squares(3), {});
  EXPECT_THAT(test::error_of([&] { loader.seek({0, 4}); }), HasSubstr("position"));
  EXPECT_THROW(loader.seek({-1, 0}), Error);
  DataLoader uneven(std::make_shared<Uneven>(2), {.batch = 2});
  EXPECT_THAT(test::error_of([&] { uneven.next(); }), HasSubstr("tensors in each"));
}

// A setting that only this test knows of.
constinit execution::Slot<int> new_setting(execution::Belongs::to_work);

// Samples that tell the execution state they were read in.
class Settings : public Dataset {
 public:
  int64_t size() const override { return 5; }
  Sample get(int64_t index) const override {
    const amp::AutocastState& autocast = amp::autocast_state();
    return {tensor(static_cast<double>(index)), tensor(static_cast<double>(*new_setting)),
            tensor(autocast.enabled && autocast.dtype == DType::f16 ? 1.0 : 0.0),
            tensor(static_cast<double>(autograd::module_path().size())),
            tensor(autograd::grad_enabled() ? 1.0 : 0.0)};
  }
};

// With any number of workers, and wherever next() is called.
TEST(DataLoader, PreparesSamplesInTheStateThatItWasMadeIn) {
  for (const int workers : {0, 1, 3}) {
    std::unique_ptr<DataLoader> loader;
    {
      const Restore<int> setting(*new_setting, 41);
      const amp::Autocast cast(DType::f16);
      const autograd::ModuleScope path("data");
      loader = std::make_unique<DataLoader>(std::make_shared<Settings>(),
                                            DataLoaderOptions{.batch = 2, .workers = workers});
    }
    const Restore<int> setting(*new_setting, 5);
    const amp::Autocast cast(DType::bf16);
    int64_t samples = 0;
    for (const Sample& batch : *loader) {
      const double expected[] = {41, 1, 4, 0};
      for (size_t i = 0; i < 4; ++i)
        EXPECT_THAT(to_vector(batch[i + 1]), ::testing::Each(expected[i])) << workers << " workers";
      samples += batch[0].numel();
    }
    EXPECT_EQ(samples, 5);
    EXPECT_EQ(*new_setting, 5);
    EXPECT_EQ(amp::autocast_state().dtype, DType::bf16);
  }
}

}  // namespace
}  // namespace binade::data
