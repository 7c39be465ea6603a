#include "binade/lab/precision_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>

#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/data/batches.h"
#include "binade/data/corpus.h"
#include "binade/ops/create/create.h"
#include "binade/train/config/presets.h"
#include "binade/train/trainer.h"

namespace binade::lab {
namespace {

constexpr const char* recipe_prefix = "fp8-";

// Counts values by exponent.
class ExponentCounter {
 public:
  void add(const Tensor& x) {
    if (!x.defined() || !is_compute(x.dtype())) return;
    // About 16384 elements of a large tensor are enough for a histogram.
    const std::vector<double> values = to_vector(x.detach());
    const size_t stride = std::max<size_t>(1, values.size() / 16384);
    for (size_t i = 0; i < values.size(); i += stride) {
      ++count_;
      if (values[i] == 0 || !std::isfinite(values[i])) {
        zeros_ += values[i] == 0;
      } else {
        ++counts_[std::ilogb(values[i])];
      }
    }
  }

  // Leaves out the tails, a thousandth of the values together, which would stretch the chart.
  ExponentHistogram histogram(std::string name) const {
    ExponentHistogram result{.name = std::move(name)};
    if (counts_.empty()) return result;
    const auto in_tail = [left = count_ / 2000](int64_t count) mutable {
      return (left -= count) >= 0;
    };
    auto low = counts_.begin();
    for (auto tail = in_tail; std::next(low) != counts_.end() && tail(low->second);) ++low;
    auto high = std::prev(counts_.end());
    for (auto tail = in_tail; high != low && tail(high->second);) --high;
    result.first = low->first;
    result.fractions.resize(static_cast<size_t>(high->first - low->first) + 1);
    for (auto at = low; at != std::next(high); ++at)
      result.fractions[static_cast<size_t>(at->first - result.first)] =
          static_cast<double>(at->second) / static_cast<double>(count_);
    result.zeros = static_cast<double>(zeros_) / static_cast<double>(count_);
    return result;
  }

 private:
  std::map<int, int64_t> counts_;
  int64_t count_ = 0, zeros_ = 0;
};

// Counts the exponents of the inputs of linear layers and of the gradients they receive.
class ExponentObserver : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor>,
               std::span<const Tensor>) override {
    if (op != Op::linear) return;
    const autograd::OpObserverScope no_observer(nullptr);
    activations.add(inputs[0]);
  }
  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override {
    if (node.op != Op::linear) return;
    const autograd::OpObserverScope no_observer(nullptr);
    gradients.add(dy[0]);
  }

  ExponentCounter activations, gradients;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Validations of a run.
constexpr int64_t validations = 10;

// Called after each step with its number and loss; false ends the run.
using OnStep = std::function<bool(int64_t, double)>;

// One run, or nothing if on_step ended it.
std::optional<ComparedRun> train_run(const train::Config& config, const std::string& precision,
                                     data::Split split, const OnStep& on_step) {
  using Clock = std::chrono::steady_clock;
  ComparedRun run{.precision = precision};
  const Device device = train::device_of(config);
  memory::release_cached(device);
  memory::reset_peak(device);
  train::Trainer trainer(config);
  trainer.prepare_reference(split);
  int64_t all_tokens = 0;
  const int64_t eval_every = std::max<int64_t>(1, config.train.steps / validations);
  std::vector<double> speeds;
  ExponentObserver exponents;
  double seconds = 0;
  for (int64_t step = 0; step < config.train.steps; ++step) {
    // The last step is observed, which takes time, so its speed does not count.
    const bool last = step + 1 == config.train.steps;
    const autograd::OpObserverScope observing(last ? &exponents : nullptr);
    const auto begin = Clock::now();
    const train::StepResult result = trainer.step(split.train);
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    seconds += elapsed;
    const int64_t tokens = data::training_tokens(
        split.train, {config.train.batch, config.model.context, config.train.accumulate},
        static_cast<uint64_t>(config.train.seed), step);
    all_tokens += tokens;
    const double speed = static_cast<double>(tokens) / elapsed;
    if (!last || config.train.steps == 1) speeds.push_back(speed);
    run.records.push_back({.step = result.step,
                           .loss = result.loss,
                           .lr = result.lr,
                           .gradient_norm = result.gradient_norm,
                           .scale = result.scale,
                           .applied = result.applied,
                           .skipped = trainer.skipped(),
                           .tokens_per_second = speed,
                           .memory = memory::peak(device),
                           .seconds = seconds,
                           .tokens = all_tokens});
    if (result.step % eval_every == 0 || last)
      run.records.back().validation_loss = trainer.evaluate(split.validation).loss;
    run.scale = result.scale;
    if (!on_step(result.step, result.loss)) return {};
  }
  run.memory = memory::statistics(device);
  run.skipped = trainer.skipped();
  run.tokens_per_second = median(speeds);
  run.loss = *run.records.back().validation_loss;
  ExponentCounter weights;
  for (const Tensor& parameter : trainer.model().parameters()) weights.add(parameter);
  run.weights = weights.histogram("weights");
  run.activations = exponents.activations.histogram("activations");
  run.gradients = exponents.gradients.histogram("gradients");
  return run;
}

}  // namespace

std::vector<std::string> comparable() {
  std::vector<std::string> names = {"fp32", "tf32", "bf16", "fp16", "fp16-noscale"};
  for (const amp::Recipe* recipe : amp::recipes::all())
    names.push_back(std::string(recipe_prefix) + recipe->name);
  return names;
}

train::Config in_precision(const train::Config& given, const std::string& precision) {
  const std::vector<std::string> known = comparable();
  if (std::find(known.begin(), known.end(), precision) == known.end()) {
    fail("compare", {.argument = "--precisions",
                     .expected = fmt::format("some of {}", fmt::join(known, ", ")),
                     .found = "'" + precision + "'"});
  }
  if (precision == "fp16-noscale") {
    // A constant scale of 1 means no scaling.
    train::Config config = train::with_precision(given, train::Precision::fp16);
    config.precision.scale_init = 1;
    config.precision.scale_growth_interval = 1'000'000'000;
    return config;
  }
  if (precision.starts_with(recipe_prefix)) {
    train::Config config = train::with_precision(given, train::Precision::quantized);
    config.precision.recipe =
        *amp::recipes::find(precision.substr(std::string_view(recipe_prefix).size()));
    return config;
  }
  return train::with_precision(given, train::parse_precision(precision));
}

std::optional<double> Comparison::seed_noise() const {
  if (seed_losses.size() < 2) return {};
  const auto [low, high] = std::minmax_element(seed_losses.begin(), seed_losses.end());
  return *high - *low;
}

double Comparison::flushed_gradients(const ComparedRun& run) const {
  const double here = run.gradients.zeros, base = runs.front().gradients.zeros;
  return base < 1 ? std::max(0.0, (here - base) / (1 - base)) : 0;
}

std::optional<EqualLossSpeed> Comparison::equal_loss_speed(const ComparedRun& run) const {
  const ComparedRun& base = runs.front();
  if (!(base.tokens_per_second > 0)) return {};
  return speed_at_equal_loss(run.tokens_per_second / base.tokens_per_second, base.records,
                             run.records, seed_records);
}

bool Comparison::is_outside_noise(const ComparedRun& run) const {
  if (!std::isfinite(run.loss)) return true;
  const std::optional<double> noise = seed_noise();
  return noise && std::abs(run.loss - runs.front().loss) > *noise;
}

Comparison compare(const train::Config& config, const CompareOptions& options,
                   const std::function<void(const std::string&)>& log) {
  std::vector<train::Config> configs;
  for (const std::string& precision : options.precisions)
    configs.push_back(in_precision(config, precision));
  if (configs.empty())
    fail("compare", {.argument = "--precisions", .expected = "at least one", .found = "none"});
  if (options.seeds < 2)
    fail("compare", {.argument = "--seeds",
                     .expected = "at least 2, to measure the noise between seeds",
                     .found = std::to_string(options.seeds)});
  train::check_device(config);
  if (config.train.threads > 0) set_threads(static_cast<int>(config.train.threads));
  const auto tokenizer = data::open_tokenizer(config.data.tokenizer);
  const data::Split split = data::read_split({.where = config.data.source,
                                              .tokenizer = tokenizer.get(),
                                              .vocab = config.model.vocab,
                                              .batch = config.train.batch,
                                              .context = config.model.context,
                                              .validation = config.data.validation});
  Comparison result{.config = config};
  CompareProgress progress{.runs = std::ssize(configs) + options.seeds - 1,
                           .steps = config.train.steps};
  const auto run_one = [&](const train::Config& one, const std::string& precision,
                           const std::string& title) -> std::optional<ComparedRun> {
    progress.run = title;
    ++progress.index;
    auto run = train_run(one, precision, split, [&](int64_t step, double loss) {
      progress.step = step;
      progress.loss = loss;
      return !options.on_step || options.on_step(progress);
    });
    result.interrupted |= !run;
    if (run && log) log(fmt::format("{}: validation loss {:.4f}", title, run->loss));
    return run;
  };
  for (size_t i = 0; i < configs.size() && !result.interrupted; ++i) {
    auto run = run_one(configs[i], options.precisions[i], options.precisions[i]);
    if (run) result.runs.push_back(std::move(*run));
  }
  if (!result.runs.empty()) result.seed_losses.push_back(result.runs.front().loss);
  for (int64_t seed = 1; seed < options.seeds && !result.interrupted; ++seed) {
    train::Config other = configs.front();
    other.train.seed += seed;
    const std::string& precision = options.precisions.front();
    auto run = run_one(other, precision, fmt::format("{}, seed {}", precision, other.train.seed));
    if (!run) continue;
    result.seed_losses.push_back(run->loss);
    result.seed_records.push_back(std::move(run->records));
  }
  return result;
}

}  // namespace binade::lab
