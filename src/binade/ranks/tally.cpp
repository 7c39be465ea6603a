#include "binade/ranks/tally.h"

#include <algorithm>
#include <utility>

#include "binade/backend/backend.h"
#include "binade/backend/exchange.h"
#include "binade/backend/transfer.h"

namespace binade::ranks {
namespace {

std::span<std::byte> memory_of(const Tensor& x) {
  return {static_cast<std::byte*>(x.raw_data()), static_cast<size_t>(x.bytes())};
}

int64_t count_of(const Tensor& x) { return x.defined() ? x.numel() : 0; }

// The numbers of all ranks in columns [begin, begin + count), as one.
Tensor joined(const Tensor& all, int64_t begin, int64_t count, backend::Reduction op) {
  const Tensor result = Tensor::empty({1, count}, DType::f64, all.device());
  const Tensor columns = all.strided({all.shape()[0], count}, all.strides(), all.offset() + begin);
  if (count > 0) backend::of(all).reduce.reduce(op, columns, {result, false});
  return result.strided({count}, {1}, 0);
}

}  // namespace

Tally::Tally(std::shared_ptr<Communicator> ranks, const Partition& partition, size_t parameters,
             int64_t micro_batches, Device device)
    : ranks_(std::move(ranks)),
      data_(ranks_->place(Group::data)),
      partition_(partition),
      parameters_(parameters),
      micro_batches_(micro_batches),
      device_(device) {
  for (int rank = 0; rank < data_.size; ++rank) {
    int64_t parts = 0;
    for (size_t i = 0; i < parameters_; ++i) parts += parts_of(i, rank);
    norm_parts_ = std::max(norm_parts_, parts);
  }
}

int64_t Tally::parts_of(size_t parameter, int rank) const {
  return backend::norm_parts(partition_.owned(parameter, rank).size(), device_);
}

Tensor Tally::make_order(int64_t length, int64_t begin) const {
  std::vector<int64_t> order, next;
  for (int rank = 0; rank < data_.size; ++rank) next.push_back(rank * length + begin);
  // The parts of each parameter, in the order of its elements, which is that of its owners.
  for (size_t i = 0; i < parameters_; ++i) {
    for (int rank = 0; rank < data_.size; ++rank) {
      for (int64_t k = parts_of(i, rank); k > 0; --k)
        order.push_back(next[static_cast<size_t>(rank)]++);
    }
  }
  const Tensor host = Tensor::empty({std::ssize(order)}, DType::i64);
  std::copy(order.begin(), order.end(), host.mutable_data<int64_t>());
  return backend::transfer(host, device_);
}

StepNumbers Tally::exchange(const StepNumbers& own) {
  if (data_.is_alone() || device_.is_meta()) return own;  // meta: there are no numbers
  const memory::CategoryGuard category(memory::Category::workspace);
  const auto& kernels = backend::of(device_);
  const int64_t ranks = data_.size;
  // Of a micro-batch.
  const int64_t each = std::ssize(own.losses) / data_.item_count(data_.rank, micro_batches_);
  const int64_t most_losses = data_.item_count(0, micro_batches_) * each;
  // found_inf, first_bad, losses, amaxes and their counts, parts of the norm.
  constexpr int64_t losses_at = 2;
  const int64_t maxima_at = losses_at + most_losses;
  const int64_t sums_at = maxima_at + count_of(own.maxima);
  const int64_t most_at = sums_at + count_of(own.sums);
  const int64_t norm_at = most_at + count_of(own.most);
  const int64_t length = norm_at + norm_parts_;

  const Tensor message = Tensor::empty({length}, DType::f64, device_);
  kernels.elementwise.fill(message, 0);
  std::vector<TensorView> scalars = {own.found_inf,
                                     own.first_bad.defined() ? own.first_bad : own.found_inf};
  scalars.insert(scalars.end(), own.losses.begin(), own.losses.end());
  backend::collect(scalars, message);
  const std::pair<const Tensor&, int64_t> lists[] = {
      {own.maxima, maxima_at}, {own.sums, sums_at}, {own.most, most_at}, {own.norm_parts, norm_at}};
  for (const auto& [list, at] : lists) {
    if (count_of(list) > 0)
      kernels.elementwise.copy(list, message.strided({list.numel()}, {1}, at));
  }

  const Tensor all = Tensor::empty({ranks, length}, DType::f64, device_);
  ranks_->all_gather("tally", memory_of(message), memory_of(all),
                     std::vector<int64_t>(static_cast<size_t>(ranks), message.bytes()));
  if (order_length_ != length) {
    order_ = make_order(length, norm_at);
    order_length_ = length;
  }
  using backend::Reduction;
  kernels.elementwise.copy(joined(all, 0, 1, Reduction::max), own.found_inf);
  if (own.first_bad.defined())
    kernels.elementwise.copy(joined(all, 1, 1, Reduction::min), own.first_bad);
  StepNumbers whole{.norm_parts = Tensor::empty({order_.numel()}, DType::f64, device_),
                    .found_inf = own.found_inf,
                    .first_bad = own.first_bad,
                    .losses = {},
                    .maxima = joined(all, maxima_at, count_of(own.maxima), Reduction::max),
                    .sums = joined(all, sums_at, count_of(own.sums), Reduction::sum),
                    .most = joined(all, most_at, count_of(own.most), Reduction::max)};
  if (order_.numel() > 0)
    kernels.index.index_select(all.strided({all.numel()}, {1}, 0), 0, order_, whole.norm_parts);
  for (int64_t micro = 0; micro < micro_batches_; ++micro) {
    const auto index = static_cast<int64_t>(data_.index_of(micro));
    const int64_t at = data_.rank_of(micro) * length + losses_at + index * each;
    for (int64_t i = 0; i < each; ++i) whole.losses.push_back(all.strided({}, {}, at + i));
  }
  return whole;
}

}  // namespace binade::ranks
