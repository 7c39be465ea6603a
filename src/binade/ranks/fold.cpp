#include "binade/ranks/fold.h"

#include <algorithm>
#include <string>
#include <utility>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"

namespace binade::ranks {
namespace {

Tensor elements(const Tensor& x, int64_t begin, int64_t count) {
  return x.strided({count}, {1}, x.offset() + begin);
}

std::span<std::byte> bytes_of(const Tensor& x) {
  return {static_cast<std::byte*>(x.raw_data()), static_cast<size_t>(x.bytes())};
}

Tensor gradient_of(const Tensor& parameter) {
  const Tensor gradient = parameter.grad();
  if (!gradient.defined()) {
    fail("ranks",
         {.argument = "gradient of " + describe(parameter),
          .expected = "one from every micro-batch",
          .found = "none",
          .hint = "leave parameters that the loss does not depend on out of the optimizer"});
  }
  return gradient;
}

}  // namespace

Fold::Fold(std::shared_ptr<Communicator> ranks, const Partition& partition,
           std::vector<Tensor> parameters, const Options& options)
    : ranks_(std::move(ranks)),
      data_(ranks_->place(Group::data)),
      partition_(partition),
      parameters_(std::move(parameters)),
      options_(options),
      send_counts_(static_cast<size_t>(data_.size)),
      receive_counts_(send_counts_.size()),
      bucket_of_(parameters_.size()) {
  if (options_.order == ReduceOrder::any && options_.wire != DType::f32) {
    fail("ranks", {.argument = "order 'any'",
                   .expected = "gradients sent in f32",
                   .found = std::string(name(options_.wire))});
  }
  if (is_alone()) {
    sums_.resize(parameters_.size());
    return;
  }
  for (const Tensor& parameter : parameters_) {
    if (parameter.grad_dtype() == DType::f32) continue;
    fail("ranks", {.argument = "parameter " + describe(parameter),
                   .expected = "f32 gradients",
                   .found = std::string(name(parameter.grad_dtype()))});
  }
  const Device device = parameters_.front().device();
  const std::vector<Bucket>& buckets = partition.buckets();
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (const size_t parameter : buckets[b].parameters) bucket_of_[parameter] = b;
    const memory::CategoryGuard category(memory::Category::gradients);
    sums_.push_back(Tensor::empty({buckets[b].owned(data_.rank).size()}, DType::f32, device));
  }
  const memory::CategoryGuard category(memory::Category::workspace);
  outgoing_ = Tensor::empty({partition.largest_bucket()}, options.wire, device);
  int64_t most = 0;
  for (const Bucket& bucket : buckets)
    most = std::max(most, bucket.owned(data_.rank).size() * data_.size);
  incoming_ = Tensor::empty({most}, options.wire, device);
}

std::vector<Tensor> Fold::sums() const {
  std::vector<Tensor> result;
  if (is_alone()) return result;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Bucket& bucket = partition_.buckets()[bucket_of_[i]];
    const auto index =
        static_cast<size_t>(std::find(bucket.parameters.begin(), bucket.parameters.end(), i) -
                            bucket.parameters.begin());
    const Range owned = partition_.owned(i, data_.rank);
    const int64_t begin = bucket.starts[index] + owned.begin - bucket.owned(data_.rank).begin;
    result.push_back(elements(sums_[bucket_of_[i]], owned.size() == 0 ? 0 : begin, owned.size()));
  }
  return result;
}

void Fold::begin_round(bool is_first, int leaves) {
  if (is_alone()) {
    is_first ? sums_.assign(parameters_.size(), Tensor()) : keep_first();
    return;
  }
  is_first_ = is_first;
  leaves_ = leaves;
  next_ = 0;
  missing_.clear();
  for (const Bucket& bucket : partition_.buckets()) missing_.push_back(bucket.parameters.size());
}

void Fold::note_finished(size_t parameter) {
  if (is_alone()) return add_own(parameter);
  size_t& missing = missing_[bucket_of_[parameter]];
  if (missing > 0) --missing;
  send_ready();
}

void Fold::send_ready() {
  while (next_ < missing_.size() && missing_[next_] == 0) send(next_++);
}

void Fold::send_up_to(size_t buckets) {
  while (next_ < buckets) send(next_++);
}

void Fold::end_round() {
  send_up_to(missing_.size());
  add_arrived();
}

void Fold::pack(const Bucket& bucket) {
  const NoGrad no_grad;
  for (size_t i = 0; i < bucket.parameters.size(); ++i) {
    const Tensor& parameter = parameters_[bucket.parameters[i]];
    const Tensor gradient = gradient_of(parameter);
    const Tensor target = outgoing_.strided(parameter.shape(), gradient.strides(),
                                            outgoing_.offset() + bucket.starts[i]);
    backend::of(gradient).elementwise.copy(gradient, target);
    parameter.zero_grad();
  }
}

void Fold::keep_first() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (sums_[i].defined() || !parameters_[i].grad().defined()) continue;
    sums_[i] = parameters_[i].grad();
    parameters_[i].zero_grad();
  }
}

void Fold::add_own(size_t parameter) {
  const Tensor gradient = gradient_of(parameters_[parameter]);
  const auto& kernels = backend::of(gradient).elementwise;
  if (options_.wire != DType::f32) {
    const memory::CategoryGuard category(memory::Category::workspace);
    const Tensor rounded = Tensor::empty(gradient.shape(), options_.wire, gradient.device());
    kernels.copy(gradient, rounded);
    kernels.copy(rounded, gradient);
  }
  if (!sums_[parameter].defined()) return;
  kernels.axpby(1, gradient, 1, sums_[parameter]);
  parameters_[parameter].zero_grad();
}

void Fold::finish() {
  if (!is_alone()) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (sums_[i].defined()) parameters_[i].set_grad(std::exchange(sums_[i], {}));
  }
}

void Fold::send(size_t index) {
  add_arrived();
  const Bucket& bucket = partition_.buckets()[index];
  const bool has_leaf = data_.rank < leaves_;
  if (has_leaf) pack(bucket);
  const auto size = static_cast<int64_t>(size_of(options_.wire));
  const int64_t own = bucket.owned(data_.rank).size();
  for (int rank = 0; rank < data_.size; ++rank) {
    send_counts_[static_cast<size_t>(rank)] = has_leaf ? bucket.owned(rank).size() * size : 0;
    receive_counts_[static_cast<size_t>(rank)] = rank < leaves_ ? own * size : 0;
  }
  const std::string name = "fold of bucket " + std::to_string(index);
  under_way_ = index;
  if (options_.order == ReduceOrder::any) {
    if (!has_leaf) backend::of(outgoing_).elementwise.fill(outgoing_, 0);
    for (int rank = 0; rank < data_.size; ++rank)
      send_counts_[static_cast<size_t>(rank)] = bucket.owned(rank).size() * size;
    pending_ = ranks_->reduce_scatter(name, bytes_of(elements(outgoing_, 0, bucket.size)),
                                      bytes_of(elements(incoming_, 0, own)), send_counts_);
    return;
  }
  const Tensor out = elements(outgoing_, 0, has_leaf ? bucket.size : 0);
  const Tensor in = elements(incoming_, 0, own * leaves_);
  pending_ = ranks_->all_to_all(name, bytes_of(out), send_counts_, bytes_of(in), receive_counts_);
}

void Fold::add_arrived() {
  if (!under_way_) return;
  pending_.wait();
  const Tensor& sum = sums_[*std::exchange(under_way_, {})];
  const int64_t own = sum.numel();
  if (own == 0) return;
  const int arrived = options_.order == ReduceOrder::any ? 1 : leaves_;
  for (int rank = 0; rank < arrived; ++rank) {
    backend::of(sum).elementwise.axpby(1, elements(incoming_, rank * own, own),
                                       is_first_ && rank == 0 ? 0 : 1, sum);
  }
}

}  // namespace binade::ranks
