#include "binade/ranks/amax_exchange.h"

#include <algorithm>
#include <string>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/backend/backend.h"
#include "binade/backend/exchange.h"

namespace binade::ranks {

std::vector<AmaxExchange::Stream> AmaxExchange::streams() const {
  std::vector<Stream> result;
  if (is_alone_) return result;
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
  std::stable_partition(result.begin(), result.end(),
                        [](const Stream& one) { return !one.is_weight; });
  return result;
}

void AmaxExchange::settle(const std::vector<Stream>& streams) {
  for (const Stream& one : streams)
    backend::of(one.pending).quantize.record_amax({}, one.pending, one.dropped);
}

Tensor AmaxExchange::dropped_of(const std::vector<Stream>& streams) {
  if (streams.empty()) return {};
  const Tensor result =
      Tensor::empty({std::ssize(streams)}, DType::f64, streams.front().dropped.device());
  std::vector<TensorView> scalars;
  for (const Stream& one : streams) scalars.push_back(one.dropped);
  backend::collect(scalars, result);
  return result;
}

void AmaxExchange::begin() {
  const std::vector<Stream> all = streams();
  counted_streams_.clear();
  for (const Stream& one : all) counted_streams_.push_back(one.name);
  counted_ = dropped_of(all);
}

void AmaxExchange::count_new(const std::vector<Stream>& streams) {
  if (counted_streams_.size() == streams.size()) return;
  // New streams had dropped nothing before.
  const Tensor before =
      Tensor::empty({std::ssize(streams)}, DType::f64, streams.front().pending.device());
  const auto& kernels = backend::of(before).elementwise;
  kernels.fill(before, 0);
  for (size_t i = 0; i < streams.size(); ++i) {
    const auto known = std::find(counted_streams_.begin(), counted_streams_.end(), streams[i].name);
    if (known != counted_streams_.end())
      kernels.copy(counted_.strided({1}, {1}, known - counted_streams_.begin()),
                   before.strided({1}, {1}, static_cast<int64_t>(i)));
  }
  counted_ = before;
}

void AmaxExchange::add_to(StepNumbers& own) {
  const std::vector<Stream> all = streams();
  if (all.empty()) return;
  settle(all);
  count_new(all);
  const auto count = std::ssize(all);
  own.maxima = Tensor::empty({count}, DType::f64, counted_.device());
  std::vector<TensorView> pending;
  for (const Stream& one : all) pending.push_back(one.pending);
  backend::collect(pending, own.maxima);
  const Tensor added = dropped_of(all);
  backend::of(added).elementwise.binary(backend::Binary::sub, added, counted_, added);
  const auto summed =
      std::count_if(all.begin(), all.end(), [](const Stream& one) { return !one.is_weight; });
  own.sums = added.strided({summed}, {1}, 0);
  own.most = added.strided({count - summed}, {1}, summed);
}

void AmaxExchange::take(const StepNumbers& whole) {
  const std::vector<Stream> all = streams();
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
                               counted_.strided({numbers.numel()}, {1}, at),
                               total.strided({numbers.numel()}, {1}, at));
  };
  add(whole.sums, 0);
  add(whole.most, summed);
  backend::distribute(total, dropped);
}

}  // namespace binade::ranks
