#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::data {

// The tensors of one sample, for example an image and its label; or of a batch of them.
using Sample = std::vector<Tensor>;

// A dataset whose samples are read by index.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Sample `index`, of size(). Called by several threads at once. Random numbers drawn here (rand,
  // dropout, random::next_key) are a function of the loader's seed, the epoch and the index.
  virtual Sample get(int64_t index) const = 0;
};

// Joins the samples of a batch.
using Collate = std::function<Sample(const std::vector<Sample>& samples)>;
// Stacks the first tensors of all samples, the second ones, and so on, along a new first axis.
Sample stack_samples(const std::vector<Sample>& samples);

struct DataLoaderOptions {
  int64_t batch = 1;
  bool shuffle = false;  // another order in every epoch, a function of seed and epoch
  uint64_t seed = 0;
  bool drop_last = false;  // leaves out the last batch of an epoch if it is smaller
  int workers = 0;         // threads that prepare batches ahead; 0: next() prepares them itself
  int64_t prefetch = 2;    // batches ahead, per worker
  Collate collate = stack_samples;
};

// Batches of a dataset, epoch after epoch. Their order and content do not depend on the number of
// workers: samples are prepared in the state (base/execution.h) that the loader was made in,
// without gradients.
//
//   data::DataLoader loader(std::make_shared<Images>(...), {.batch = 64, .shuffle = true, .workers
//   = 4}); for (int epoch = 0; epoch < 10; ++epoch) {
//     for (const data::Sample& batch : loader) train(batch[0], batch[1]);
//   }
class DataLoader {
 public:
  // Where a loader stands: batches of the epoch that have been returned. Enough to continue a run.
  struct Position {
    int64_t epoch = 0;
    int64_t batch = 0;

    bool operator==(const Position&) const = default;
  };

  DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // Batches per epoch.
  int64_t size() const { return batches_; }
  // The next batch, or nothing, once, at the end of an epoch. Throws what get() threw.
  std::optional<Sample> next();
  Position position() const { return position_; }
  // Continues from a position.
  void seek(Position position);

  // The rest of the epoch as a range: a loop that was left early is continued by the next one.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Sample;
    using difference_type = std::ptrdiff_t;
    using pointer = const Sample*;
    using reference = const Sample&;

    Iterator() = default;
    explicit Iterator(DataLoader& loader) : loader_(&loader), batch_(loader.next()) {}
    reference operator*() const { return *batch_; }
    pointer operator->() const { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const {
      return batch_.has_value() == other.batch_.has_value();
    }

   private:
    DataLoader* loader_ = nullptr;
    std::optional<Sample> batch_;  // nothing at the end
  };
  Iterator begin() { return Iterator(*this); }
  Iterator end() { return {}; }

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;
  struct Shared;  // between the caller's thread and the workers

  // The order of an epoch's samples.
  Order order_of(int64_t epoch) const;
  // The order of the epoch of batch `number`, kept for the batches after it.
  Order shared_order(int64_t epoch);
  // Batch `number`, counted over all epochs.
  Sample prepare(int64_t number, const std::vector<int64_t>& order) const;
  int64_t number_of(Position position) const { return position.epoch * batches_ + position.batch; }
  void work();
  Sample take(int64_t number);

  const std::shared_ptr<const Dataset> dataset_;
  const DataLoaderOptions options_;
  int64_t samples_ = 0, batches_ = 0;
  Position position_;  // of the caller's thread only
  const std::unique_ptr<Shared> shared_;
};

}  // namespace binade::data
