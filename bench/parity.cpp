// Trains one byte-level GPT per precision and seed on a text and prints the final validation
// losses:
//   parity TEXT [STEPS] [SEEDS] [MODE]
// Every mode starts from the same weights and sees the same batches. Modes: fp32 tf32 bf16 fp16
// fp8-delayed fp8-current, all by default. docs/precision.md holds a recorded run.

#include <binade/binade.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

using namespace binade;

namespace {

constexpr int64_t context = 128, batch = 8, validation_batches = 16;

struct Mode {
  std::string name;
  std::optional<DType> autocast;
  bool scaler = false;
  bool tf32 = false;
  std::optional<amp::Recipe> recipe = {};
};

std::vector<Mode> all_modes() {
  return {{"fp32", {}},
          {"tf32", {}, false, true},
          {"bf16", DType::bf16},
          {"fp16", DType::f16, true},
          {"fp8-delayed", DType::bf16, false, false, amp::recipes::delayed()},
          {"fp8-current", DType::bf16, false, false, amp::recipes::current()}};
}

struct Text {
  std::vector<int64_t> train, validation;
};

Text read_text(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 20 * (context + 1)) {
    std::fprintf(stderr, "parity: %s: expected a text of some KiB, found %zu bytes\n", path,
                 bytes.size());
    std::exit(2);
  }
  Text text;
  const size_t cut = bytes.size() * 9 / 10;
  for (size_t i = 0; i < bytes.size(); ++i) {
    (i < cut ? text.train : text.validation).push_back(static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

// [batch, context + 1] windows, a function of the key alone.
Tensor windows(const std::vector<int64_t>& tokens, random::Key key) {
  const auto last = static_cast<int64_t>(tokens.size()) - context - 1;
  const Tensor starts = randint(0, last, {batch}, key);
  std::vector<int64_t> values;
  for (int64_t row = 0; row < batch; ++row) {
    const auto* begin = tokens.data() + starts.data<int64_t>()[row];
    values.insert(values.end(), begin, begin + context + 1);
  }
  return tensor(values, {batch, context + 1});
}

Tensor loss_of(nn::GPT& model, const Mode& mode, const Tensor& data) {
  const amp::Autocast autocast(mode.autocast.value_or(DType::bf16),
                               {.enabled = mode.autocast.has_value()});
  const amp::MatmulPrecisionGuard matmul(mode.tf32 ? amp::MatmulPrecision::high
                                                   : amp::MatmulPrecision::highest);
  const amp::QuantizedAutocast quantized(amp::RecipeState{
      .enabled = mode.recipe.has_value(), .recipe = mode.recipe.value_or(amp::Recipe{})});
  return model.loss(slice(data, 1, 0, context), slice(data, 1, 1, context + 1));
}

double train(const Mode& mode, const Text& text, int steps, uint64_t seed) {
  nn::GPT model(
      {.layers = 4, .width = 160, .heads = 5, .vocab = 256, .context = context, .seed = seed});
  optim::AdamW adam(model.parameters(), {.lr = 1e-3, .beta2 = 0.95, .weight_decay = 0.1});
  amp::GradScaler scaler({.enabled = mode.scaler});
  const optim::Schedule schedule{.peak = 2e-3, .warmup = 50, .total = steps};
  for (int step = 0; step < steps; ++step) {
    adam.set_lr(schedule.at(adam.steps()));
    adam.zero_grad();
    scaler.scale(loss_of(model, mode, windows(text.train, {seed, static_cast<uint64_t>(step)})))
        .backward();
    scaler.unscale(adam);
    optim::clip_grad_norm(model.parameters(), 1.0);
    scaler.step(adam);
    scaler.update();
  }
  const NoGrad no_grad;
  double total = 0;
  for (int64_t i = 0; i < validation_batches; ++i) {
    total += loss_of(model, mode, windows(text.validation, {99, static_cast<uint64_t>(i)})).item();
  }
  return total / static_cast<double>(validation_batches);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: parity TEXT [STEPS] [SEEDS] [MODE]\n");
    return 2;
  }
  const Text text = read_text(argv[1]);
  const int steps = argc > 2 ? std::atoi(argv[2]) : 600, seeds = argc > 3 ? std::atoi(argv[3]) : 3;
  for (const Mode& mode : all_modes()) {
    if (argc > 4 && mode.name != argv[4]) continue;
    for (int seed = 1; seed <= seeds; ++seed) {
      const auto start = std::chrono::steady_clock::now();
      const double loss = train(mode, text, steps, static_cast<uint64_t>(seed));
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::printf("%-12s seed %d steps %d validation loss %.5f  %.1f s\n", mode.name.c_str(), seed,
                  steps, loss, seconds);
      std::fflush(stdout);
    }
  }
}
