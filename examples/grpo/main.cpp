// A small Llama learns by reinforcement alone to write the digits of a prompt in reverse:
//
//   grpo --precision fp32|bf16|fp16|fp8 [--sampler-precision P] [--seed N] [--steps N] [--out
//   FOLDER]
//
// The sampler and the trainer run the same weights through the same forward, so in the first update
// on fresh answers every probability is the sampled one bit for bit; this is asserted. A
// --sampler-precision that differs plants the mismatch that other systems have. With --out the run
// writes rewards.csv, rewards.svg and its state, and continues from that when it is started again.
#include <binade/binade.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chart.h"
#include "grpo.h"
#include "task.h"

using namespace binade;

namespace {

constexpr int updates = 2;  // per rollout

struct Arguments {
  std::string precision = "fp32", sampler_precision = {}, out = {};
  uint64_t seed = 1;
  uint64_t steps = 400;
  uint64_t save_every = 50;
  double lr = 1e-3;  // falls to 0 over the steps
};

[[noreturn]] void refuse(const std::string& message) {
  std::fprintf(stderr, "grpo: %s\n", message.c_str());
  std::exit(2);
}

uint64_t whole(const std::string& name, std::string_view text, uint64_t least = 0) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least)
    refuse(name + ": expected a whole number of at least " + std::to_string(least) + ", found " +
           std::string(text));
  return number;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) refuse(name + ": expected a value, found none");
    const std::string value = argv[i + 1];
    if (name == "--precision") {
      arguments.precision = value;
    } else if (name == "--sampler-precision") {
      arguments.sampler_precision = value;
    } else if (name == "--out") {
      arguments.out = value;
    } else if (name == "--seed") {
      arguments.seed = whole(name, value);
    } else if (name == "--steps") {
      arguments.steps = whole(name, value, 1);
    } else if (name == "--save-every") {
      arguments.save_every = whole(name, value, 1);
    } else {
      refuse(name + ": not an option");
    }
  }
  if (arguments.sampler_precision.empty()) arguments.sampler_precision = arguments.precision;
  return arguments;
}

// For its lifetime, models run in this precision.
class PrecisionScope {
 public:
  explicit PrecisionScope(const std::string& precision) {
    if (precision == "bf16" || precision == "fp8") {
      cast_.emplace(DType::bf16);
    } else if (precision == "fp16") {
      cast_.emplace(DType::f16);
    } else if (precision != "fp32") {
      refuse("precision: expected fp32, bf16, fp16 or fp8, found " + precision);
    }
    // A scale per row, so that a token's bits do not depend on the others of its batch.
    if (precision == "fp8") quantized_.emplace(amp::parse_recipe("row"));
  }

 private:
  std::optional<amp::Autocast> cast_;
  std::optional<amp::QuantizedAutocast> quantized_;
};

nn::LlamaConfig model_config(uint64_t seed) {
  return {.layers = 2,
          .width = 64,
          .heads = 4,
          .kv_heads = 2,
          .hidden = 128,
          .vocab = task::vocab,
          .context = 16,
          .seed = seed};
}

// A run of the algorithm, which can be saved and continued.
class Run {
 public:
  explicit Run(const Arguments& arguments)
      : arguments_(arguments),
        model_(model_config(arguments.seed)),
        optimizer_(model_.parameters(), {.lr = arguments.lr, .beta2 = 0.95, .weight_decay = 0}),
        scaler_({.enabled = arguments.precision == "fp16", .growth_interval = 400}) {
    if (!arguments.out.empty()) std::filesystem::create_directories(arguments.out);
    if (std::filesystem::exists(file("state.safetensors"))) load();
  }

  const std::vector<double>& rewards() const { return rewards_; }

  void train() {
    while (rewards_.size() < arguments_.steps) {
      step(rewards_.size());
      if (!arguments_.out.empty() &&
          (rewards_.size() % arguments_.save_every == 0 || rewards_.size() == arguments_.steps))
        save();
    }
  }

 private:
  std::filesystem::path file(const char* name) const {
    return std::filesystem::path(arguments_.out) / name;
  }

  void step(uint64_t number) {
    const double rest = static_cast<double>(arguments_.steps - number);
    optimizer_.set_lr(arguments_.lr * rest / static_cast<double>(arguments_.steps));
    const grpo::Rollouts rollouts = [&] {
      const PrecisionScope scope(arguments_.sampler_precision);
      return grpo::roll_out(model_, {.seed = arguments_.seed, .step = number});
    }();
    rewards_.push_back(rollouts.reward);
    grpo::Mismatch first, last;
    for (int i = 0; i < updates; ++i) update(rollouts, i == 0 ? first : last);
    if (number % 20 == 0 || number + 1 == arguments_.steps)
      std::printf(
          "step %3d  reward %.3f  log ratio: first update %.2g, last %.2g (%.1f%% clipped)\n",
          static_cast<int>(number), rollouts.reward, first.largest_log_ratio,
          last.largest_log_ratio, 100 * last.clipped);
    if (arguments_.precision == arguments_.sampler_precision && first.largest_log_ratio != 0)
      refuse("the first update's probabilities are not the sampled ones");
  }

  void update(const grpo::Rollouts& rollouts, grpo::Mismatch& mismatch) {
    optimizer_.zero_grad();
    const Tensor loss = [&] {
      const PrecisionScope scope(arguments_.precision);
      return grpo::loss(model_.logits(rollouts.tokens), rollouts, mismatch);
    }();
    scaler_.scale(loss).backward();
    scaler_.unscale(optimizer_);
    optim::clip_grad_norm(model_.parameters(), 1.0);
    scaler_.step(optimizer_);
    scaler_.update();
  }

  // All that later steps depend on, in one file, which replaces the last one when it is complete.
  void save() {
    StateDict state;
    for (const auto& [name, value] : model_.state_dict()) state["model." + name] = value;
    for (const auto& [name, value] : optimizer_.state_dict()) state["optimizer." + name] = value;
    for (const auto& [name, value] : scaler_.state())
      state["scaler." + name] = full({1}, value, DType::f64);
    state["rewards"] = tensor(rewards_, {std::ssize(rewards_)}, DType::f64);
    io::save_safetensors(file("state.safetensors"), state);
    std::ofstream table(file("rewards.csv"));
    for (size_t i = 0; i < rewards_.size(); ++i) table << i << "," << rewards_[i] << "\n";
    write_chart(file("rewards.svg"), "mean reward, " + arguments_.precision, rewards_);
  }

  void load() {
    StateDict model, optimizer;
    amp::ScalerState scaler;
    for (const auto& [name, value] : io::load_safetensors(file("state.safetensors"))) {
      const std::string rest = name.substr(name.find('.') + 1);
      if (name.starts_with("model.")) model[rest] = value;
      if (name.starts_with("optimizer.")) optimizer[rest] = value;
      if (name.starts_with("scaler.")) scaler[rest] = value.item();
      if (name == "rewards") rewards_ = to_vector(value);
    }
    model_.load_state_dict(model);
    optimizer_.load_state_dict(optimizer);
    if (!scaler.empty()) scaler_.load_state(scaler);
    std::printf("continuing from step %d\n", static_cast<int>(rewards_.size()));
  }

  const Arguments arguments_;
  nn::Llama model_;
  optim::AdamW optimizer_;
  amp::GradScaler scaler_;
  std::vector<double> rewards_;  // of the steps done
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    const Arguments arguments = parse(argc, argv);
    Run run(arguments);
    run.train();
    return run.rewards().back() > 0.9 || arguments.steps < 400 ? 0 : 1;
  } catch (const Error& error) {
    refuse(error.what());
  }
}
