#include "binade/dist/fp8_maxima.h"

#include <string>

namespace binade::dist {

std::vector<Fp8Maxima::Stream> Fp8Maxima::streams() const {
  std::vector<Stream> result;
  // Layers that have not run in FP8 have no buffers yet. A linear layer names them in this order.
  const auto buffers = model_.named_buffers();
  for (size_t i = 0; i + 1 < buffers.size(); ++i) {
    const auto& [name, pending] = buffers[i];
    if (!name.ends_with(".pending")) continue;
    const std::string stream = name.substr(0, name.size() - std::string("pending").size());
    const auto& [next, dropped] = buffers[i + 1];
    if (next == stream + "dropped")
      result.push_back({stream, pending, dropped, stream.ends_with("fp8.weight.")});
  }
  return result;
}

void Fp8Maxima::begin() {
  counted_.clear();
  for (const Stream& stream : streams())
    counted_[stream.name] = static_cast<int64_t>(stream.dropped.item());
}

void Fp8Maxima::add_to(StepPart& part) {
  const std::vector<Stream> all = streams();
  for (size_t i = 0; i < all.size(); ++i) {
    part.maxima.push_back(all[i].pending.item());
    const int64_t added = static_cast<int64_t>(all[i].dropped.item()) - counted_[all[i].name];
    part.sums.push_back(all[i].is_weight ? 0 : added);
    part.most.push_back(all[i].is_weight ? added : 0);
  }
}

void Fp8Maxima::take(const StepWhole& whole) {
  const std::vector<Stream> all = streams();
  for (size_t i = 0; i < all.size(); ++i) {
    *all[i].pending.mutable_data<float>() = static_cast<float>(whole.maxima[i]);
    const int64_t dropped = counted_[all[i].name] + whole.sums[i] + whole.most[i];
    *all[i].dropped.mutable_data<int32_t>() = static_cast<int32_t>(dropped);
  }
}

}  // namespace binade::dist
