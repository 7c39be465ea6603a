#include "binade/train/hash/state_hash.h"

#include <fmt/format.h>

#include <bit>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/positional_hash.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"

namespace binade::train {

std::string differing_parts(const StateHash& a, const StateHash& b) {
  std::string names;
  for (const auto& [name, hash] : state_parts) {
    if (a.*hash != b.*hash) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

TensorHasher::TensorHasher(Device device) : host_(zeros({1}, DType::i64)) {
  device_ = device == Device::cpu() ? host_ : zeros({1}, DType::i64, device);
}

void TensorHasher::add(std::string_view name, const Tensor& x, int64_t begin) {
  if (x.numel() == 0) return;
  const NoGrad no_grad;
  const Tensor& sum = x.device() == Device::cpu() ? host_ : device_;
  const Tensor dense = x.is_dense() ? x.detach() : contiguous(x.detach());
  const uint64_t key = XXH3_64bits(name.data(), name.size());
  backend::hash_kernels(x.device()).add(dense, key, begin, sum);
}

void TensorHasher::add(std::string_view name, double value) {
  add(name, full({1}, value, DType::f64));
}

uint64_t TensorHasher::sum() const {
  const auto value = [](const Tensor& sum) {
    return std::bit_cast<uint64_t>(*to(sum, Device::cpu()).data<int64_t>());
  };
  return value(host_) + (device_.same_as(host_) ? 0 : value(device_));
}

uint64_t hash_of(const data::Batch& batch, int64_t step, int64_t micro) {
  if (batch.tokens.device().is_meta()) return 0;  // a forecast
  TensorHasher hasher(batch.tokens.device());
  const std::string name = fmt::format("{} {} ", step, micro);
  hasher.add(name + "tokens", batch.tokens);
  hasher.add(name + "targets", batch.targets);
  if (batch.weight.defined()) hasher.add(name + "weight", batch.weight);
  if (batch.reference.defined()) hasher.add(name + "reference", batch.reference);
  for (size_t i = 0; i < batch.documents.size(); ++i)
    hasher.add(fmt::format("{}document {}", name, i), static_cast<double>(batch.documents[i]));
  return hasher.sum();
}

}  // namespace binade::train
