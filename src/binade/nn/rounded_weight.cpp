#include "binade/nn/rounded_weight.h"

#include "binade/tensor/memory.h"

namespace binade::nn {

const Tensor& RoundedWeight::values(std::span<const Tensor> sources, FunctionRef<Tensor()> weight) {
  std::vector<Seen> now;
  for (const Tensor& source : sources) now.push_back({source.storage(), source.version()});
  if (values_.defined() && now == seen_) return values_;
  const memory::CategoryGuard category(memory::Category::parameters);
  values_ = {};  // before there are new ones
  values_ = round_weight(weight(), format_, parts_);
  seen_ = std::move(now);
  return values_;
}

Tensor RoundedWeight::operator()(const Tensor& parameter) {
  return straight_through(values({&parameter, 1}, [&] { return parameter; }), parameter);
}

}  // namespace binade::nn
