// A tiny GPT learns to count in mixed precision: f32 weights, products in bf16, or in f16 with a
// scaled loss: gpt [bf16|f16].
#include <binade/binade.h>

#include <cstdio>
#include <string_view>
#include <vector>

using namespace binade;

namespace {

// Sequences that count upwards from a random start, modulo the vocabulary: [batch, tokens].
Tensor counting(int64_t batch, int64_t tokens, int64_t vocab, uint64_t step) {
  std::vector<int64_t> ids;
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t start = random::bits(/*seed=*/11, step, static_cast<uint64_t>(row)) % vocab;
    for (int64_t i = 0; i < tokens; ++i) ids.push_back((start + i) % vocab);
  }
  return tensor(std::span<const int64_t>(ids), {batch, tokens});
}

}  // namespace

int main(int argc, char** argv) {
  const DType dtype = argc > 1 && std::string_view(argv[1]) == "f16" ? DType::f16 : DType::bf16;
  const int64_t vocab = 64, context = 32;
  const int steps = 60;

  nn::GPT model({.layers = 2, .width = 64, .heads = 4, .vocab = vocab, .context = context});
  optim::AdamW optimizer(model.parameters(), {.weight_decay = 0.1});
  amp::GradScaler scaler({.enabled = dtype == DType::f16});
  const optim::Schedule schedule{.peak = 3e-3, .warmup = 5, .total = steps};

  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor data = counting(8, context + 1, vocab, static_cast<uint64_t>(step));
    const Tensor tokens = slice(data, 1, 0, context), targets = slice(data, 1, 1, context + 1);

    optimizer.set_lr(schedule.at(step));
    optimizer.zero_grad();
    const Tensor loss = [&] {
      amp::Autocast cast(dtype);
      return model.loss(tokens, targets);
    }();
    scaler.scale(loss).backward();
    scaler.unscale(optimizer);
    optim::clip_grad_norm(model.parameters(), 1.0);
    const amp::StepReport report = scaler.step(optimizer);  // applied, or skipped and why
    scaler.update();

    last = loss.item();
    if (step == 0) first = last;
    if (!report.applied()) std::printf("step %2d  skipped: %s\n", step, report.reason().c_str());
    if (step % 10 == 0 || step == steps - 1) {
      std::printf("step %2d  loss %.4f  scale %g\n", step, last, report.scale());
    }
  }
  return last < first / 2 ? 0 : 1;
}
