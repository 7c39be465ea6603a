#include "binade/bench/step.h"

#include <fmt/format.h>

#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>

#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/base/json.h"
#include "binade/base/random.h"
#include "binade/bench/machine.h"
#include "binade/train/machine.h"
#include "binade/train/throughput.h"
#include "binade/train/trainer.h"

namespace binade::bench {
namespace {

// Seconds since this process was started, from entry 22 of /proc/self/stat; 0 if there is no /proc.
double process_age() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream rest(text.substr(after_name + 1));
  std::string entry;
  for (int i = 3; i <= 22; ++i) rest >> entry;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
         std::stod(entry) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Random ids, as in a mapped token file.
data::Tokens random_tokens(const train::Config& config) {
  const int64_t count = 4 * config.batch * (config.context + 1);
  auto ids = std::make_shared<std::vector<uint32_t>>(static_cast<size_t>(count));
  for (size_t i = 0; i < ids->size(); ++i) {
    const uint64_t draw = random::bits(static_cast<uint64_t>(config.seed), 0, i);
    (*ids)[i] = static_cast<uint32_t>(draw * static_cast<uint64_t>(config.vocab) >> 32);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(ids->data());
  return {ids, bytes, sizeof(uint32_t), count};
}

// A trainer on random tokens.
class Stepper {
 public:
  explicit Stepper(const train::Config& config)
      : tokens_(random_tokens(config)), trainer_(config) {}

  void step() {
    trainer_.start_step(tokens_);
    note(trainer_.finished());
  }

  // Loss of the last step.
  double loss() {
    note(trainer_.finish_all());
    return loss_;
  }

  bool uses_graph() const { return trainer_.uses_graph(); }

 private:
  void note(const std::vector<train::StepResult>& results) {
    if (!results.empty()) loss_ = results.back().loss;
  }

  data::Tokens tokens_;
  train::Trainer trainer_;
  double loss_ = 0;
};

// Seconds per step, one entry per part of the timed steps.
std::vector<double> timed(Stepper& stepper, Device device, int64_t steps) {
  const int64_t parts = device.is_cuda() ? std::min<int64_t>(5, steps) : steps;
  std::vector<double> result;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t count = steps * (part + 1) / parts - steps * part / parts;
    wait_for(device);
    const double start = bench_clock();
    for (int64_t i = 0; i < count; ++i) stepper.step();
    wait_for(device);
    result.push_back((bench_clock() - start) / static_cast<double>(count));
  }
  return result;
}

// Measures the seconds of one step by kind of work, in extra steps: timing each kernel slows them.
void profile(Stepper& stepper, Device device, int64_t steps, StepTiming& timings) {
  const backend::Profiler profiler(device, [](Device on) {
    wait_for(on);
    return bench_clock();
  });
  wait_for(device);
  const double start = bench_clock();
  for (int64_t i = 0; i < steps; ++i) stepper.step();
  wait_for(device);
  timings.other_work = bench_clock() - start;
  timings.work = profiler.seconds();
  for (double& seconds : timings.work) {
    timings.other_work -= seconds;
    seconds /= static_cast<double>(steps);
  }
  timings.other_work /= static_cast<double>(steps);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void write(json::Writer& out, const StepTiming& f) {
  const auto number = [&out](std::string_view key, double value) {
    out.key(key);
    if (std::isfinite(value)) {
      out.value(value);
    } else {
      out.value(nullptr);
    }
  };
  out.begin_object().key("precision").value(train::name(f.precision));
  number("tokens_per_second", f.tokens_per_second);
  number("best_tokens_per_second", f.best_tokens_per_second);
  number("step_ms", f.step_seconds * 1e3);
  number("best_step_ms", f.best_step_seconds * 1e3);
  number("first_step_since_start_s", f.first_step_since_start);
  number("first_step_since_model_s", f.first_step_since_model);
  number("tflops", f.flops / 1e12);
  number("share_of_peak", f.share_of_peak);
  out.key("work_ms").begin_object();
  for (int i = 0; i < backend::work_count; ++i)
    number(backend::name(static_cast<backend::Work>(i)), f.work[static_cast<size_t>(i)] * 1e3);
  number("other", f.other_work * 1e3);
  out.end_object();
  out.key("peak_bytes").value(f.memory.peak).key("peak_bytes_by_category").begin_object();
  for (int i = 0; i < memory::category_count; ++i)
    out.key(memory::name(static_cast<memory::Category>(i)))
        .value(f.memory.at_peak[static_cast<size_t>(i)]);
  out.end_object().key("peak_reserved_bytes").value(f.memory.peak_reserved);
  out.key("misses_after_warmup").value(f.misses);
  if (f.joules_per_token) number("joules_per_token", *f.joules_per_token);
  number("loss", f.loss);
  out.key("graph").value(f.graph).end_object();
}

std::string work_table(const std::vector<StepTiming>& timings) {
  std::string text = fmt::format("\n{:<9}", "work");
  for (int i = 0; i < backend::work_count; ++i)
    text += fmt::format(" {:>11}", backend::name(static_cast<backend::Work>(i)));
  text += fmt::format(" {:>11}\n", "other");
  for (const StepTiming& f : timings) {
    const double all = std::accumulate(f.work.begin(), f.work.end(), f.other_work);
    text += fmt::format("{:<9}", train::name(f.precision));
    for (const double seconds : f.work) text += fmt::format(" {:>10.1f}%", 100 * seconds / all);
    text += fmt::format(" {:>10.1f}%\n", 100 * f.other_work / all);
  }
  return text;
}

std::string memory_table(const std::vector<StepTiming>& timings) {
  std::string text = fmt::format("\n{:<9}", "peak MiB");
  for (int i = 0; i < memory::category_count; ++i)
    text += fmt::format(" {:>11}", memory::name(static_cast<memory::Category>(i)));
  text += fmt::format(" {:>11} {:>11}\n", "total", "reserved");
  for (const StepTiming& f : timings) {
    text += fmt::format("{:<9}", train::name(f.precision));
    for (const int64_t bytes : f.memory.at_peak)
      text += fmt::format(" {:>11.1f}", mebibytes(bytes));
    text += fmt::format(" {:>11.1f} {:>11.1f}\n", mebibytes(f.memory.peak),
                        mebibytes(f.memory.peak_reserved));
  }
  return text;
}

std::string energy_table(const std::vector<StepTiming>& timings) {
  std::string text;
  for (const StepTiming& f : timings) {
    if (f.joules_per_token)
      text += fmt::format("{:<9} {:.3f} mJ per token, {:.0f} W\n", train::name(f.precision),
                          1e3 * *f.joules_per_token, *f.joules_per_token * f.tokens_per_second);
  }
  return text.empty() ? text : "\nenergy of the timed steps\n" + text;
}

}  // namespace

StepTiming bench_step(const train::Config& config, const StepBenchOptions& options) {
  const Device device = train::device_of(config);
  backend::of(device);  // fails if this build does not support the device
  const double peak = train::instruction_peak(device, config.precision);
  memory::release_cached(device);
  const double start = bench_clock();
  Stepper stepper(config);
  StepTiming result{.precision = config.precision};
  for (int64_t i = 0; i < options.warmup; ++i) {
    stepper.step();
    if (i > 0) continue;
    wait_for(device);
    result.first_step_since_model = bench_clock() - start;
    result.first_step_since_start = process_age();
  }
  memory::reset_peak(device);
  const int64_t misses = memory::statistics(device).misses;
  const std::optional<double> energy = backend::energy_joules(device);
  const std::vector<double> seconds = timed(stepper, device, options.steps);
  const std::optional<double> energy_after = backend::energy_joules(device);
  result.memory = memory::statistics(device);
  result.misses = result.memory.misses - misses;
  result.step_seconds = median(seconds);
  result.best_step_seconds = *std::min_element(seconds.begin(), seconds.end());
  const auto tokens = static_cast<double>(config.accumulate * config.batch * config.context);
  if (energy && energy_after)
    result.joules_per_token =
        (*energy_after - *energy) / (tokens * static_cast<double>(options.steps));
  result.tokens_per_second = tokens / result.step_seconds;
  result.best_tokens_per_second = tokens / result.best_step_seconds;
  result.flops = train::flops_per_token(train::model_config(config)) * result.tokens_per_second;
  result.share_of_peak = peak > 0 ? result.flops / peak : 0;
  result.loss = stepper.loss();
  result.graph = stepper.uses_graph();
  profile(stepper, device, std::min<int64_t>(options.steps, 5), result);
  return result;
}

std::string to_table(const train::Config& config, const std::vector<StepTiming>& timings) {
  std::string text = fmt::format("{} {} layers x {}, vocabulary {}, batch {} x {} tokens; {}\n",
                                 train::name(config.model), config.layers, config.width,
                                 config.vocab, config.accumulate * config.batch, config.context,
                                 device_text(train::device_of(config)));
  text += fmt::format("{:<9} {:>10} {:>10} {:>9} {:>9} {:>8} {:>7} {:>9} {:>7} {:>6} {:>8}\n",
                      "precision", "tokens/s", "best", "step ms", "best", "TFLOP/s", "peak",
                      "first s", "misses", "graph", "loss");
  for (const StepTiming& f : timings)
    text += fmt::format(
        "{:<9} {:>10.0f} {:>10.0f} {:>9.2f} {:>9.2f} {:>8.3f} {:>6.1f}% {:>9.3f} {:>7} {:>6} "
        "{:>8.4f}\n",
        train::name(f.precision), f.tokens_per_second, f.best_tokens_per_second,
        f.step_seconds * 1e3, f.best_step_seconds * 1e3, f.flops / 1e12, f.share_of_peak * 100,
        f.first_step_since_model, f.misses, f.graph ? "yes" : "no", f.loss);
  return text + work_table(timings) + memory_table(timings) + energy_table(timings);
}

std::string to_json(const train::Config& config, const std::vector<StepTiming>& timings) {
  json::Writer out(2);
  out.begin_object().key("bench").value("step");
  out.key("device").value(device_text(train::device_of(config)));
  out.key("model").value(train::name(config.model)).key("layers").value(config.layers);
  out.key("width").value(config.width).key("vocab").value(config.vocab);
  out.key("batch").value(config.batch).key("accumulate").value(config.accumulate);
  out.key("context").value(config.context).key("params").value(train::name(config.params));
  out.key("flops_per_token").value(train::flops_per_token(train::model_config(config)));
  out.key("results").begin_array();
  for (const StepTiming& f : timings) write(out, f);
  return out.end_array().end_object().text();
}

}  // namespace binade::bench
