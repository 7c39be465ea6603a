#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include "binade/data/data_loader.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/shape/shape.h"

// torch::data: datasets by index, transforms and loaders.
namespace binade::torch::data {

// A sample or, once stacked, a batch of them.
template <class Data = Tensor, class Target = Tensor>
struct Example {
  Example() = default;
  Example(Data data, Target target) : data(std::move(data)), target(std::move(target)) {}

  Data data;
  Target target;
};

// A sample without a target, which is undefined.
using TensorExample = Example<>;

namespace datasets {

template <class D, class Transform>
class MapDataset;

// A dataset derives from Dataset<itself> and has get(index) and size().
template <class Self, class Sample = Example<>>
class Dataset {
 public:
  using ExampleType = Sample;
  using BatchType = std::vector<Sample>;

  virtual ~Dataset() = default;
  virtual Sample get(size_t index) = 0;
  virtual std::optional<size_t> size() const = 0;
  BatchType get_batch(const std::vector<size_t>& indices) {
    BatchType batch;
    for (const size_t index : indices) batch.push_back(get(index));
    return batch;
  }
  // This dataset, used up, with a transform after it.
  template <class Transform>
  MapDataset<Self, Transform> map(Transform transform) && {
    return {std::move(static_cast<Self&>(*this)), std::move(transform)};
  }
  template <class Transform>
  MapDataset<Self, Transform> map(Transform transform) & {
    return {static_cast<Self&>(*this), std::move(transform)};
  }
};

// A dataset whose batches a transform changes.
template <class D, class Transform>
class MapDataset {
 public:
  MapDataset(D dataset, Transform transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)) {}

  auto get_batch(const std::vector<size_t>& indices) {
    return transform_.apply_batch(dataset_.get_batch(indices));
  }
  std::optional<size_t> size() const { return dataset_.size(); }
  template <class Next>
  MapDataset<MapDataset, Next> map(Next next) && {
    return {std::move(*this), std::move(next)};
  }
  template <class Next>
  MapDataset<MapDataset, Next> map(Next next) & {
    return {*this, std::move(next)};
  }
  const D& dataset() const { return dataset_; }

 private:
  D dataset_;
  Transform transform_;
};

// The rows of a tensor, or of several together: get() has the first as data, the second as target.
class TensorDataset : public Dataset<TensorDataset> {
 public:
  explicit TensorDataset(Tensor data) : tensors_{std::move(data)} {}
  TensorDataset(std::initializer_list<Tensor> tensors) : tensors_(tensors) { check(); }
  explicit TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) { check(); }

  Example<> get(size_t index) override {
    const auto at = static_cast<int64_t>(index);
    return {tensors_.at(0)[at], tensors_.size() > 1 ? tensors_[1][at] : Tensor()};
  }
  std::optional<size_t> size() const override {
    return static_cast<size_t>(tensors_.at(0).size(0));
  }

 private:
  void check() const {
    for (const Tensor& one : tensors_) {
      if (one.size(0) == tensors_[0].size(0)) continue;
      fail("TensorDataset", {.argument = "tensors",
                             .expected = std::to_string(tensors_[0].size(0)) + " rows",
                             .found = describe(one)});
    }
  }

  std::vector<Tensor> tensors_;
};

}  // namespace datasets

namespace transforms {

// Joins the samples of a batch into one.
template <class Sample = Example<>>
struct Stack {
  Sample apply_batch(const std::vector<Sample>& batch) {
    std::vector<Tensor> data, targets;
    for (const Sample& one : batch) {
      data.push_back(one.data);
      if (one.target.defined()) targets.push_back(one.target);
    }
    return {stack(data, 0), targets.empty() ? Tensor() : stack(targets, 0)};
  }
};

// A transform of single samples.
template <class Self, class Sample = Example<>>
struct PerExample {
  std::vector<Sample> apply_batch(std::vector<Sample> batch) {
    for (Sample& one : batch) one = static_cast<Self&>(*this).apply(std::move(one));
    return batch;
  }
};

// One number for all channels, or one for each.
class ChannelValues : public std::vector<double> {
 public:
  ChannelValues(double value) : vector{value} {}  // NOLINT: see above
  ChannelValues(std::initializer_list<double> values) : vector(values) {}
  ChannelValues(std::vector<double> values) : vector(std::move(values)) {}  // NOLINT

  // As a tensor beside data [channels, ...].
  Tensor beside(const Tensor& data) const {
    Shape shape = Shape::filled(data.rank(), 1);
    if (size() > 1) shape[0] = static_cast<int64_t>(size());
    return tensor(std::span<const double>(*this), shape, data.dtype());
  }
};

// (data - mean) / deviation of data [channels, ...].
template <class Target = Tensor>
struct Normalize : PerExample<Normalize<Target>, Example<Tensor, Target>> {
  Normalize(ChannelValues mean, ChannelValues deviation)
      : mean(std::move(mean)), deviation(std::move(deviation)) {}
  Example<Tensor, Target> apply(Example<Tensor, Target> sample) {
    sample.data = (sample.data - mean.beside(sample.data)) / deviation.beside(sample.data);
    return sample;
  }
  ChannelValues mean, deviation;
};

template <class Sample = Example<>>
struct Lambda : PerExample<Lambda<Sample>, Sample> {
  explicit Lambda(std::function<Sample(Sample)> function) : function(std::move(function)) {}
  Sample apply(Sample sample) { return function(std::move(sample)); }
  std::function<Sample(Sample)> function;
};

// A function of the data, which leaves the target.
template <class Target = Tensor>
struct TensorLambda : PerExample<TensorLambda<Target>, Example<Tensor, Target>> {
  explicit TensorLambda(std::function<Tensor(Tensor)> function) : function(std::move(function)) {}
  Example<Tensor, Target> apply(Example<Tensor, Target> sample) {
    sample.data = function(std::move(sample.data));
    return sample;
  }
  std::function<Tensor(Tensor)> function;
};

}  // namespace transforms

namespace samplers {

// Indices, a batch at a time; reset() begins the next epoch.
template <class Derived>
class Sampler {
 public:
  Sampler() = default;
  explicit Sampler(size_t size) : order_(Derived::order(size)) {}

  std::optional<std::vector<size_t>> next(size_t batch) {
    if (at_ >= order_.size()) return {};
    const size_t begin = at_;
    at_ = std::min(at_ + batch, order_.size());
    return std::vector<size_t>(order_.begin() + static_cast<std::ptrdiff_t>(begin),
                               order_.begin() + static_cast<std::ptrdiff_t>(at_));
  }
  void reset(std::optional<size_t> size = {}) {
    order_ = Derived::order(size.value_or(order_.size()));
    at_ = 0;
  }

 private:
  std::vector<size_t> order_;
  size_t at_ = 0;
};

struct SequentialSampler : Sampler<SequentialSampler> {
  using Sampler::Sampler;
  static std::vector<size_t> order(size_t count) {
    std::vector<size_t> result(count);
    std::iota(result.begin(), result.end(), size_t{0});
    return result;
  }
};

// A new order in every epoch, of this thread's random numbers.
struct RandomSampler : Sampler<RandomSampler> {
  using Sampler::Sampler;
  static std::vector<size_t> order(size_t count) {
    const Tensor drawn = randperm(static_cast<int64_t>(count));
    const auto* const values = drawn.data<int64_t>();
    return {values, values + count};
  }
};

}  // namespace samplers

class DataLoaderOptions {
 public:
  DataLoaderOptions(size_t batch_size = 1) : batch_size_(batch_size) {}  // NOLINT: as LibTorch's

#define BINADE_TORCH_LOADER_ARG(T, name) \
  DataLoaderOptions& name(T value) {     \
    name##_ = value;                     \
    return *this;                        \
  }                                      \
  T name() const { return name##_; }
  BINADE_TORCH_LOADER_ARG(size_t, batch_size)
  BINADE_TORCH_LOADER_ARG(size_t, workers)
  BINADE_TORCH_LOADER_ARG(bool, drop_last)
  BINADE_TORCH_LOADER_ARG(bool, enforce_ordering)  // always: batches come in the sampler's order
#undef BINADE_TORCH_LOADER_ARG

 private:
  size_t batch_size_, workers_ = 0;
  bool drop_last_ = false, enforce_ordering_ = true;
};

// Batches of a dataset, one epoch for each begin(). Workers prepare them by copies of the dataset.
template <class D, class Sampler>
class StatelessDataLoader {
 public:
  using Batch = decltype(std::declval<D&>().get_batch(std::declval<std::vector<size_t>>()));

  StatelessDataLoader(D dataset, DataLoaderOptions options)
      : dataset_(std::move(dataset)), options_(options) {
    if (options.batch_size() < 1)
      fail("make_data_loader", {.argument = "batch_size", .expected = "at least 1", .found = "0"});
  }

  class Iterator {
   public:
    explicit Iterator(StatelessDataLoader* loader) : loader_(loader) { advance(); }
    Batch& operator*() { return *batch_; }
    Batch* operator->() { return &*batch_; }
    Iterator& operator++() {
      advance();
      return *this;
    }
    bool operator==(const Iterator& other) const {
      return batch_.has_value() == other.batch_.has_value();
    }

   private:
    void advance() {
      if (loader_ != nullptr) batch_ = loader_->next();
    }

    StatelessDataLoader* loader_;
    std::optional<Batch> batch_;
  };
  Iterator begin() {
    start();
    return Iterator(this);
  }
  Iterator end() { return Iterator(nullptr); }
  const DataLoaderOptions& options() const { return options_; }

 private:
  // The batches of an epoch as samples of the library's loader. Batches are not tensors only, so
  // they are handed over here and the loader carries their numbers.
  struct Epoch : binade::data::Dataset {
    Epoch(const D& dataset, std::vector<std::vector<size_t>> parts, size_t copies)
        : parts(std::move(parts)), batches(this->parts.size()), free(copies, dataset) {}
    int64_t size() const override { return static_cast<int64_t>(parts.size()); }
    binade::data::Sample get(int64_t index) const override {
      std::optional<D> dataset = borrow();
      const auto at = static_cast<size_t>(index);
      batches[at] = dataset->get_batch(parts[at]);
      const std::scoped_lock lock(mutex);
      free.push_back(std::move(*dataset));
      return {tensor(index)};
    }
    std::optional<D> borrow() const {
      const std::scoped_lock lock(mutex);
      std::optional<D> last(std::move(free.back()));
      free.pop_back();
      return last;
    }

    std::vector<std::vector<size_t>> parts;
    mutable std::vector<std::optional<Batch>> batches;
    mutable std::vector<D> free;  // copies of the dataset that no worker uses
    mutable std::mutex mutex;
  };

  void start() {
    const size_t count = dataset_.size().value_or(0), batch = options_.batch_size();
    const std::vector<size_t> order = Sampler::order(count);
    std::vector<std::vector<size_t>> parts;
    for (size_t i = 0; i < count; i += batch) {
      const size_t end = std::min(i + batch, count);
      if (end - i < batch && options_.drop_last()) break;
      parts.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(i),
                         order.begin() + static_cast<std::ptrdiff_t>(end));
    }
    loader_.reset();
    epoch_.reset();
    if (parts.empty()) return;
    const size_t workers = std::min(options_.workers(), parts.size());
    epoch_ = std::make_shared<Epoch>(dataset_, std::move(parts), std::max<size_t>(workers, 1));
    loader_ = std::make_unique<binade::data::DataLoader>(
        epoch_, binade::data::DataLoaderOptions{.batch = 1, .workers = static_cast<int>(workers)});
  }

  std::optional<Batch> next() {
    if (loader_ == nullptr) return {};
    const std::optional<binade::data::Sample> sample = loader_->next();
    if (!sample) {
      loader_.reset();
      return {};
    }
    return std::exchange(epoch_->batches[static_cast<size_t>((*sample)[0].item())], std::nullopt);
  }

  D dataset_;
  DataLoaderOptions options_;
  std::shared_ptr<Epoch> epoch_;
  std::unique_ptr<binade::data::DataLoader> loader_;
};

template <class Sampler = samplers::RandomSampler, class D>
std::unique_ptr<StatelessDataLoader<D, Sampler>> make_data_loader(D dataset,
                                                                  DataLoaderOptions options = {}) {
  return std::make_unique<StatelessDataLoader<D, Sampler>>(std::move(dataset), options);
}
template <class D, std::derived_from<samplers::Sampler<samplers::SequentialSampler>> Sampler>
std::unique_ptr<StatelessDataLoader<D, Sampler>> make_data_loader(D dataset, Sampler,
                                                                  DataLoaderOptions options = {}) {
  return make_data_loader<Sampler>(std::move(dataset), options);
}
template <class D, std::derived_from<samplers::Sampler<samplers::RandomSampler>> Sampler>
std::unique_ptr<StatelessDataLoader<D, Sampler>> make_data_loader(D dataset, Sampler,
                                                                  DataLoaderOptions options = {}) {
  return make_data_loader<Sampler>(std::move(dataset), options);
}

}  // namespace binade::torch::data
