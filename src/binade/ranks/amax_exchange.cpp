#include "binade/ranks/amax_exchange.h"

#include <algorithm>
#include <string>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/backend/backend.h"
#include "binade/backend/exchange.h"

namespace binade::ranks {

std::vector<AmaxExchange::Stream> AmaxExchange::streams() const {
  std::vector<Stream> result;
  for (const auto& [path, module] : model_.named_modules()) {
    amp::LayerScales* scales = module->layer_scales();
    if (scales == nullptr) continue;
    for (const amp::Role role : amp::layer_roles) {
      // Roles that have not been quantized yet have no stream.
      const amp::ScaleStream& stream = (*scales)[role];
      if (!stream.defined()) continue;
      result.push_back({path + "." + std::string(name(role)), stream.pending, stream.dropped,
                        role == amp::Role::weight});
    }
  }
  return result;
}

void AmaxExchange::settle(const std::vector<Stream>& streams) {
  for (const Stream& one : streams)
    backend::of(one.pending).quantize.record_amax({}, one.pending, one.dropped);
}

void AmaxExchange::begin() {
  counted_.clear();
  for (const Stream& stream : streams())
    counted_[stream.name] = static_cast<int64_t>(stream.dropped.item());
}

void AmaxExchange::add_to(StepPart& part) {
  const std::vector<Stream> all = streams();
  settle(all);
  for (size_t i = 0; i < all.size(); ++i) {
    part.maxima.push_back(all[i].pending.item());
    const int64_t added = static_cast<int64_t>(all[i].dropped.item()) - counted_[all[i].name];
    part.sums.push_back(all[i].is_weight ? 0 : added);
    part.most.push_back(all[i].is_weight ? added : 0);
  }
}

void AmaxExchange::take(const StepWhole& whole) {
  const std::vector<Stream> all = streams();
  for (size_t i = 0; i < all.size(); ++i) {
    *all[i].pending.mutable_data<float>() = static_cast<float>(whole.maxima[i]);
    const int64_t dropped = counted_[all[i].name] + whole.sums[i] + whole.most[i];
    *all[i].dropped.mutable_data<int32_t>() = static_cast<int32_t>(dropped);
  }
}

std::vector<AmaxExchange::Stream> AmaxExchange::ordered_streams() const {
  std::vector<Stream> all = streams();
  std::stable_partition(all.begin(), all.end(), [](const Stream& one) { return !one.is_weight; });
  return all;
}

Tensor AmaxExchange::dropped_of(const std::vector<Stream>& streams) const {
  if (streams.empty()) return {};
  const Tensor result =
      Tensor::empty({std::ssize(streams)}, DType::f64, streams.front().dropped.device());
  std::vector<TensorView> scalars;
  for (const Stream& one : streams) scalars.push_back(one.dropped);
  backend::collect(scalars, result);
  return result;
}

void AmaxExchange::begin_on_device() {
  const std::vector<Stream> all = ordered_streams();
  counted_streams_.clear();
  for (const Stream& one : all) counted_streams_.push_back(one.name);
  counted_on_device_ = dropped_of(all);
}

void AmaxExchange::add_to(DeviceTally::Part& part) {
  const std::vector<Stream> all = ordered_streams();
  if (all.empty()) return;
  settle(all);
  const auto count = std::ssize(all);
  const Device device = all.front().pending.device();
  const auto& kernels = backend::of(device);
  if (std::ssize(counted_streams_) != count) {
    // The first step has made streams, which had dropped nothing before.
    const Tensor before = Tensor::empty({count}, DType::f64, device);
    kernels.elementwise.fill(before, 0);
    for (int64_t i = 0; i < count; ++i) {
      const auto known = std::find(counted_streams_.begin(), counted_streams_.end(),
                                   all[static_cast<size_t>(i)].name);
      if (known != counted_streams_.end())
        kernels.elementwise.copy(
            counted_on_device_.strided({1}, {1}, known - counted_streams_.begin()),
            before.strided({1}, {1}, i));
    }
    counted_on_device_ = before;
  }
  part.maxima = Tensor::empty({count}, DType::f64, device);
  std::vector<TensorView> pending;
  for (const Stream& one : all) pending.push_back(one.pending);
  backend::collect(pending, part.maxima);
  const Tensor added = dropped_of(all);
  kernels.elementwise.binary(backend::Binary::sub, added, counted_on_device_, added);
  const auto summed =
      std::count_if(all.begin(), all.end(), [](const Stream& one) { return !one.is_weight; });
  part.sums = added.strided({summed}, {1}, 0);
  part.most = added.strided({count - summed}, {1}, summed);
}

void AmaxExchange::take(const DeviceTally::Whole& whole) {
  const std::vector<Stream> all = ordered_streams();
  if (all.empty()) return;
  const auto& kernels = backend::of(whole.maxima);
  std::vector<TensorView> pending, dropped;
  for (const Stream& one : all) {
    pending.push_back(one.pending);
    dropped.push_back(one.dropped);
  }
  backend::distribute(whole.maxima, pending);
  const int64_t summed = whole.sums.numel();
  const Tensor total = Tensor::empty({std::ssize(all)}, DType::f64, whole.maxima.device());
  const auto add = [&](const Tensor& numbers, int64_t at) {
    if (numbers.numel() == 0) return;
    kernels.elementwise.binary(backend::Binary::add, numbers,
                               counted_on_device_.strided({numbers.numel()}, {1}, at),
                               total.strided({numbers.numel()}, {1}, at));
  };
  add(whole.sums, 0);
  add(whole.most, summed);
  backend::distribute(total, dropped);
}

}  // namespace binade::ranks
