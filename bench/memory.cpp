// Bytes of one GPT-2 124M training step (batch 8 x 1024 tokens) per precision, from the allocator,
// on the meta device: nothing is computed and nothing is allocated, the books are those of a real
// run. docs/precision.md holds a recorded run.

#include <binade/binade.h>

#include <cstdio>
#include <optional>

using namespace binade;
using memory::Category;

namespace {

struct Mode {
  const char* name;
  DType parameters = DType::f32;
  std::optional<DType> autocast = {};
  std::optional<DType> residual = {};
  DType gradients = DType::f32;
  DType moments = DType::f32;
  bool fp8 = false;
  bool recompute = false;
};

double live(Category category) {
  return static_cast<double>(memory::allocated(category, Device::meta()));
}

void measure(const Mode& mode) {
  nn::GPT model({.vocab = 50304,
                 .residual = mode.residual,
                 .activations = nn::Activations::recompute(mode.recompute)},
                Device::meta(), mode.parameters);
  for (const Tensor& parameter : model.parameters()) parameter.set_grad_dtype(mode.gradients);
  optim::AdamW adam(model.parameters(), {.moments = mode.moments});
  const Tensor tokens = Tensor::empty({8, 1024}, DType::i64, Device::meta());
  const amp::Autocast autocast(mode.autocast.value_or(DType::bf16),
                               {.enabled = mode.autocast.has_value()});
  const amp::QuantizedAutocast fp8(
      amp::RecipeState{.enabled = mode.fp8, .recipe = amp::recipes::delayed()});
  model.loss(tokens, tokens).backward();  // the first step creates gradients and FP8 histories
  adam.zero_grad();
  const double before = live(Category::activations);
  const Tensor loss = model.loss(tokens, tokens);
  const double activations = live(Category::activations) - before;
  memory::reset_peak(Device::meta());
  loss.backward();
  const auto count = static_cast<double>(model.parameter_count());
  std::printf("%-34s %10.2f %10.2f %10.2f %12.2f %12.2f\n", mode.name,
              live(Category::parameters) / count, live(Category::gradients) / count,
              live(Category::optimizer) / count, activations / 1e9,
              static_cast<double>(memory::peak(Device::meta())) / 1e9);
}

}  // namespace

int main() {
  constexpr DType bf16 = DType::bf16;
  std::printf("%-34s %10s %10s %10s %12s %12s\n", "", "B/param", "B/param", "B/param", "GB", "GB");
  std::printf("%-34s %10s %10s %10s %12s %12s\n", "mode", "parameters", "gradients", "optimizer",
              "activations", "peak");
  measure({.name = "fp32"});
  measure({.name = "bf16 autocast", .autocast = bf16});
  measure({.name = "bf16 autocast, bf16 residual", .autocast = bf16, .residual = bf16});
  measure({.name = "bf16 parameters, f32 masters", .parameters = bf16});
  measure({.name = "  and bf16 gradients", .parameters = bf16, .gradients = bf16});
  measure({.name = "  and bf16 moments", .parameters = bf16, .gradients = bf16, .moments = bf16});
  measure({.name = "fp8 delayed, bf16 residual", .autocast = bf16, .residual = bf16, .fp8 = true});
  measure(
      {.name = "bf16 autocast, recompute", .autocast = bf16, .residual = bf16, .recompute = true});
}
