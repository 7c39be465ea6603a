// The training loop of test_same_bits.py in C++: gpt_loop LAYERS WIDTH HEADS VOCAB CONTEXT BATCH
// STEPS prints each step's loss as a hexadecimal float, a hash of the weights, and tokens/s without
// the first step.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "binade/binade.h"

using namespace binade;

namespace {

// FNV-1a over the bytes of all parameters.
uint64_t hash_of(const nn::Module& model) {
  uint64_t hash = 14695981039346656037u;
  for (const Tensor& parameter : model.parameters()) {
    const auto* bytes = static_cast<const unsigned char*>(parameter.raw_data());
    for (int64_t i = 0; i < parameter.bytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
  }
  return hash;
}

Tensor batch_of(int64_t seed, int64_t vocab, const Shape& shape) {
  return randint(0, vocab, shape,
                 {static_cast<uint64_t>(seed), random::stream_id(random::Domain::ops, 0)});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  int64_t sizes[7];
  for (int i = 0; i < 7; ++i) sizes[i] = std::atoll(argv[i + 1]);
  const auto [layers, width, heads, vocab, context, batch, steps] = sizes;
  nn::GPT model(
      {.layers = layers, .width = width, .heads = heads, .vocab = vocab, .context = context});
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3, .weight_decay = 0.1});
  auto begin = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    if (step == 1) begin = std::chrono::steady_clock::now();
    const Tensor tokens = batch_of(2 * step, vocab, {batch, context});
    const Tensor targets = batch_of(2 * step + 1, vocab, {batch, context});
    optimizer.zero_grad();
    const Tensor loss = [&] {
      const amp::Autocast autocast(DType::bf16);
      return model.loss(tokens, targets);
    }();
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    std::printf("%a\n", loss.item());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%016llx\n", static_cast<unsigned long long>(hash_of(model)));
  std::printf("%.1f\n", static_cast<double>((steps - 1) * batch * context) / seconds.count());
}
