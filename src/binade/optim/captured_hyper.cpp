#include "binade/optim/captured_hyper.h"

#include <algorithm>

#include "binade/backend/transfer.h"
#include "binade/ops/create/create.h"

namespace binade::optim {
namespace {

constexpr int64_t hyper_size = 8;  // of UpdateControl::hyper

}  // namespace

void CapturedHyper::begin(std::span<Slot* const> slots) {
  if (!device_.defined()) {
    const memory::CategoryGuard category(memory::Category::optimizer);
    const auto count = static_cast<int64_t>(slots.size());
    device_ = zeros({count, hyper_size}, DType::f64, slots[0]->parameter.device());
    host_ = zeros({count, hyper_size}, DType::f64);
    for (int64_t i = 0; i < count; ++i)
      slots[static_cast<size_t>(i)]->hyper = device_.strided({hyper_size}, {1}, hyper_size * i);
  }
  is_capturing_ = true;
}

void CapturedHyper::set(size_t index, const std::array<double, 4>& values,
                        const backend::RatesAfterSkips& after) {
  auto* next = host_.mutable_data<double>() + hyper_size * static_cast<int64_t>(index);
  next = std::copy(values.begin(), values.end(), next);
  next = std::copy(std::begin(after.lr), std::end(after.lr), next);
  *next = after.known;
}

void CapturedHyper::upload() { backend::transfer(host_, device_); }

}  // namespace binade::optim
