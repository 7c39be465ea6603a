#include "binade/data/data_loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "binade/autograd/grad_mode.h"
#include "binade/base/division.h"
#include "binade/base/execution.h"
#include "binade/base/parallel.h"
#include "binade/base/random.h"
#include "binade/ops/shape/shape.h"

namespace binade::data {
namespace {

// Shuffles draw from streams that no training batch uses, whose numbers are steps.
constexpr uint64_t shuffle_streams = uint64_t{1} << 60;

// A number below `bound`. 64 bits make the bias of the remainder immeasurable.
uint64_t draw_below(uint64_t bound, uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t high = random::bits(seed, stream, 2 * index),
                 low = random::bits(seed, stream, 2 * index + 1);
  return ((high << 32) | low) % bound;
}

// The seed of a sample's own random numbers in an epoch.
uint64_t sample_seed(uint64_t seed, int64_t epoch) {
  const auto words =
      random::philox({static_cast<uint32_t>(epoch),
                      static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32), 0, 0},
                     seed);
  return (uint64_t{words[0]} << 32) | words[1];
}

}  // namespace

Sample stack_samples(const std::vector<Sample>& samples) {
  Sample batch;
  if (samples.empty()) return batch;
  for (size_t i = 0; i < samples[0].size(); ++i) {
    std::vector<Tensor> column;
    for (const Sample& sample : samples) {
      if (sample.size() != samples[0].size()) {
        fail("stack_samples", {.argument = "samples",
                               .expected = std::to_string(samples[0].size()) + " tensors in each",
                               .found = std::to_string(sample.size())});
      }
      column.push_back(sample[i]);
    }
    batch.push_back(stack(column, 0));
  }
  return batch;
}

struct DataLoader::Shared {
  // A batch that a worker has prepared, or its failure.
  struct Prepared {
    Sample batch;
    std::exception_ptr error;
  };

  const execution::State state = {};  // of the thread that makes the loader

  std::mutex mutex;  // of all that follows, except for the workers
  std::condition_variable changed;
  std::map<int64_t, Order> orders;       // by epoch
  std::map<int64_t, Prepared> prepared;  // by number
  int64_t wanted = 0;                    // the number that next() returns next
  int64_t started = 0;                   // the number that a worker prepares next
  uint64_t seeks = 0;                    // batches started before the last one are dropped
  bool stop = false;
  std::vector<execution::Thread> workers;
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options), shared_(std::make_unique<Shared>()) {
  const auto refuse = [](const char* argument, const char* expected, int64_t found) {
    fail("DataLoader",
         {.argument = argument, .expected = expected, .found = std::to_string(found)});
  };
  if (!dataset_)
    fail("DataLoader", {.argument = "dataset", .expected = "a dataset", .found = "none"});
  if (options.batch < 1) refuse("batch", "at least 1", options.batch);
  if (options.workers < 0) refuse("workers", "at least 0", options.workers);
  if (options.prefetch < 1) refuse("prefetch", "at least 1", options.prefetch);
  if (!options.collate)
    fail("DataLoader", {.argument = "collate", .expected = "a function", .found = "none"});
  samples_ = dataset_->size();
  batches_ = options.drop_last ? samples_ / options.batch : divide_up(samples_, options.batch);
  if (batches_ < 1) {
    fail("DataLoader", {.argument = "dataset",
                        .expected = options.drop_last ? "at least one full batch" : "samples",
                        .found = std::to_string(samples_)});
  }
  for (int i = 0; i < options.workers; ++i) shared_->workers.emplace_back([this] { work(); });
}

DataLoader::~DataLoader() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  for (execution::Thread& worker : shared_->workers) worker.join();
}

DataLoader::Order DataLoader::order_of(int64_t epoch) const {
  auto order = std::make_shared<std::vector<int64_t>>(static_cast<size_t>(samples_));
  std::iota(order->begin(), order->end(), int64_t{0});
  if (!options_.shuffle) return order;
  const uint64_t stream =
      random::stream_id(random::Domain::data, shuffle_streams | static_cast<uint64_t>(epoch));
  for (size_t i = order->size() - 1; i > 0; --i) {
    const uint64_t other = draw_below(i + 1, options_.seed, stream, i);
    std::swap((*order)[i], (*order)[other]);
  }
  return order;
}

DataLoader::Order DataLoader::shared_order(int64_t epoch) {
  Order& order = shared_->orders[epoch];
  if (!order) order = order_of(epoch);
  shared_->orders.erase(
      shared_->orders.begin(),
      shared_->orders.lower_bound(shared_->wanted / batches_));  // of finished epochs
  return shared_->orders.at(epoch);
}

Sample DataLoader::prepare(int64_t number, const std::vector<int64_t>& order) const {
  const int64_t epoch = number / batches_, first = number % batches_ * options_.batch;
  const int64_t count = std::min(options_.batch, samples_ - first);
  const execution::Scope state(shared_->state);
  const NoGrad no_grad;
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = order[static_cast<size_t>(first + i)];
    random::begin_step(sample_seed(options_.seed, epoch), static_cast<uint64_t>(index));
    samples.push_back(dataset_->get(index));
  }
  return options_.collate(samples);
}

void DataLoader::work() {
  const SerialScope serial;  // the training step has the other threads
  const int64_t ahead = options_.workers * options_.prefetch;
  std::unique_lock lock(shared_->mutex);
  for (;;) {
    shared_->changed.wait(
        lock, [&] { return shared_->stop || shared_->started < shared_->wanted + ahead; });
    if (shared_->stop) return;
    const int64_t number = shared_->started++;
    const uint64_t seeks = shared_->seeks;
    const Order order = shared_order(number / batches_);
    lock.unlock();
    Shared::Prepared result;
    try {
      result.batch = prepare(number, *order);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    if (seeks == shared_->seeks) shared_->prepared[number] = std::move(result);
    shared_->changed.notify_all();
  }
}

Sample DataLoader::take(int64_t number) {
  if (shared_->workers.empty()) {
    Order order;
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->wanted = number;
      order = shared_order(number / batches_);
    }
    return prepare(number, *order);
  }
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [&] { return shared_->prepared.contains(number); });
  Shared::Prepared result = std::move(shared_->prepared.at(number));
  shared_->prepared.erase(number);
  shared_->wanted = number + 1;
  lock.unlock();
  shared_->changed.notify_all();
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.batch);
}

std::optional<Sample> DataLoader::next() {
  if (position_.batch == batches_) {
    position_ = {position_.epoch + 1, 0};
    return {};
  }
  const int64_t number = number_of(position_);
  ++position_.batch;  // a batch that fails is not tried again
  return take(number);
}

void DataLoader::seek(Position position) {
  if (position.epoch < 0 || position.batch < 0 || position.batch > batches_) {
    fail("DataLoader", {.argument = "position",
                        .expected = "batch 0 to " + std::to_string(batches_) + " of an epoch",
                        .found = "epoch " + std::to_string(position.epoch) + ", batch " +
                                 std::to_string(position.batch)});
  }
  position_ = position;
  {
    const std::lock_guard lock(shared_->mutex);
    ++shared_->seeks;
    shared_->prepared.clear();
    shared_->orders.clear();
    shared_->wanted = shared_->started = number_of(position);
  }
  shared_->changed.notify_all();
}

}  // namespace binade::data
