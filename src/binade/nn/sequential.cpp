#include "binade/nn/sequential.h"

#include <fmt/format.h>

#include "binade/ops/elementwise/activation.h"

namespace binade::nn {

void Sequential::add(std::unique_ptr<Layer> layer) {
  if (!layer)
    fail("Sequential", {.argument = "layer " + std::to_string(layers_.size()),
                        .expected = "a layer",
                        .found = "none"});
  add_child(std::to_string(layers_.size()), *layer);
  layers_.push_back(std::move(layer));
}

size_t Sequential::checked(size_t i) const {
  if (i >= layers_.size()) {
    fail("Sequential", {.argument = "index",
                        .expected = "fewer than " + std::to_string(layers_.size()),
                        .found = std::to_string(i)});
  }
  return i;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& layer : layers_) y = (*layer)(y);
  return y;
}

Dropout::Dropout(double p) : p(p) {
  if (!(p >= 0 && p <= 1))
    fail("Dropout", {.argument = "p", .expected = "0 to 1", .found = fmt::format("{}", p)});
}

std::string Dropout::description() const { return fmt::format("Dropout({:g})", p); }

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p, training()); }

}  // namespace binade::nn
