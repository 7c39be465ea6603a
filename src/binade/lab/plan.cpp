#include "binade/lab/plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/capabilities.h"
#include "binade/base/text.h"
#include "binade/data/corpus.h"
#include "binade/lab/gpu_speed.h"
#include "binade/lab/layer_stats.h"
#include "binade/lab/other_load.h"
#include "binade/lab/step_time.h"
#include "binade/optim/catalog.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/presets.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/run/progress.h"

namespace binade::lab {
namespace {

using memory::Category;

double bytes_of(std::span<const Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) bytes += static_cast<double>(tensor.bytes());
  }
  return bytes;
}

double elements(const Tensor& x) { return static_cast<double>(x.numel()); }

// Collects the work of every op of a step.
class WorkMeter : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor>, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override {
    weight_copies = std::max(weight_copies, amp::cast_cache_bytes());
    Work one{.kind = kind_of(op),
             .bytes = bytes_of(compute) + bytes_of(outputs),
             .dtype = compute[0].dtype()};
    if (op == Op::linear) {
      one.flops = 2 * elements(outputs[0]) * static_cast<double>(compute[1].size(1));
      if (amp::current_recipe() != nullptr) one.dtype = DType::e4m3;
    } else if (op == Op::linear_cross_entropy) {
      // The matmul and, computed with it, both of its gradients.
      const double matmuls = autograd::grad_enabled() ? 3 : 1;
      one.flops = matmuls * 2 * elements(compute[0]) * static_cast<double>(compute[1].size(0));
      if (amp::current_head_recipe() != nullptr) one.dtype = DType::e4m3;
    } else if (op == Op::packed_attention) {
      one.flops = 2 * elements(outputs[0]) * static_cast<double>(compute[0].size(1));
    }
    quantized_ |= one.dtype == DType::e4m3;
    work.push_back(one);
  }

  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override {
    if (node.opaque) return;  // the ops inside it were counted
    Work one{.kind = kind_of(node.op),
             .bytes = 2 * bytes_of(dy),
             .dtype = dy[0].defined() ? dy[0].dtype() : DType::f32};
    for (const autograd::GradSlot& slot : node.inputs) {
      if (!slot.needs_grad()) continue;
      one.bytes +=
          static_cast<double>(slot.shape().numel()) * static_cast<double>(size_of(slot.dtype()));
      if (node.op == Op::linear && slot.shape().rank() >= 2)
        one.flops += 2 * elements(dy[0]) * static_cast<double>(slot.shape().back());
    }
    // Five matmuls; the forward has two.
    if (node.op == Op::packed_attention)
      one.flops = 5 * elements(dy[0]) * static_cast<double>(dy[0].size(1));
    if (node.op == Op::linear && quantized_) one.dtype = DType::e4m3;
    work.push_back(one);
  }

  std::vector<Work> work;
  int64_t weight_copies = 0;

 private:
  bool quantized_ = false;
};

// Norm, clipping and the optimizer read and write each parameter's master, moments and gradient.
Work update_work(const train::Config& config, double parameters) {
  const double copies = config.precision.params == train::ParameterStorage::masters ? 2 : 0;
  const auto gradient = static_cast<double>(size_of(config.precision.gradients));
  const double moments = optim::state_bytes(config.train.optimizer, config.precision.moments);
  return {.kind = WorkKind::update,
          .bytes = parameters * (3 * gradient + 3 * 4 + 2 * moments + copies)};
}

// Whether any step has statistics (Doctor::needs_statistics).
bool takes_statistics(const train::Config& config) {
  const bool first_of_f16 = config.precision.matmul == train::Precision::fp16;
  const bool first_of_fp8 =
      config.precision.matmul == train::Precision::quantized && config.train.steps >= 4;
  return config.precision.automatic ||
         (config.run.layer_stats > 0 &&
          (config.run.layer_stats <= config.train.steps || first_of_f16 || first_of_fp8));
}

// Blocks whose statistics are taken, per step on average.
double observed_blocks(const train::Config& config) {
  if (!takes_statistics(config)) return 0;
  // Selected modules are few, and so are the looks of auto_precision (every 25 steps).
  if (config.run.layer_stats == 0 || !config.run.layer_stats_modules.empty()) return 0;
  return static_cast<double>(config.model.layers) / static_cast<double>(config.run.layer_stats);
}

// Measures one optimizer step: its ops, of which it has `share` times those of `run`, and the
// update.
void measure_step(train::MetaRun& run, const train::Config& config, double share,
                  Forecast& forecast) {
  WorkMeter meter;
  {
    const autograd::OpObserverScope watching(&meter);
    run.step();
  }
  for (Work& one : meter.work) {
    one.flops *= share;
    one.bytes *= share;
  }
  meter.work.push_back(update_work(config, static_cast<double>(forecast.trained_count)));
  forecast.work = std::move(meter.work);
  forecast.weight_copies = meter.weight_copies;
}

// Bytes that a step with statistics takes more than others.
int64_t statistics_bytes(train::MetaRun& run, const train::Config& config) {
  const int64_t before = run.memory().peak;
  LayerStatistics statistics(config.precision.recipe, {},
                             {.modules = config.run.layer_stats_modules});
  const autograd::OpObserverScope observing(&statistics);
  run.step();
  return run.memory().peak - before;
}

std::vector<std::pair<std::string, train::Config>> variants(const train::Config& given) {
  using train::ParameterStorage, train::Precision;
  std::vector<std::pair<std::string, train::Config>> result;
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::quantized}) {
    for (const bool masters : {false, true}) {
      for (const bool recompute : {false, true}) {
        if (masters && !train::uses_autocast(precision)) continue;
        if (given.lora.base.in_blocks() && precision == Precision::quantized) continue;
        train::Config config = train::with_precision(given, precision);
        const auto with_masters =
            given.precision.params == ParameterStorage::split && precision != Precision::fp16
                ? ParameterStorage::split
                : ParameterStorage::masters;
        config.precision.params = masters ? with_masters : ParameterStorage::autocast;
        config.train.activations = nn::Activations::recompute(recompute);
        result.emplace_back(
            fmt::format("{}{}{}", name(precision),
                        masters ? fmt::format(", {}", name(config.precision.params)) : "",
                        recompute ? ", recompute" : ""),
            config);
      }
    }
  }
  return result;
}

// Bytes of the tokens that a run holds in memory: those of a text. Token files and large texts are
// mapped, and what is mapped of them is given back if memory is scarce.
int64_t data_memory(const train::Config& config) {
  // In the program's file, and copied.
  if (config.data.source == data::builtin_source)
    return 2 * static_cast<int64_t>(data::builtin_corpus().size());
  std::error_code error;
  const auto bytes = std::filesystem::file_size(config.data.source, error);
  const bool held = !error && std::cmp_less(bytes, data::Source{}.cache_from);
  return held ? static_cast<int64_t>(bytes) : 0;
}

}  // namespace

Forecast forecast(const train::Config& config) {
  const train::Config few = train::with_few_rounds(config);
  train::MetaRun run(few);
  Forecast result;
  result.parameter_count = run.model().parameter_count();
  result.trained_count = train::trained_parameters(run.model());
  run.evaluate();
  run.step();
  // The second step finds gradients, moments and histories of scales in place.
  measure_step(
      run, config,
      static_cast<double>(config.train.accumulate) / static_cast<double>(few.train.accumulate),
      result);
  const memory::Statistics memory = run.memory();
  result.at_peak = memory.at_peak;
  result.peak = memory.peak;
  result.reserved = memory.peak_reserved;
  result.gradients = memory.live[static_cast<size_t>(Category::gradients)];
  // Adapters are f32 themselves.
  if (config.precision.params != train::ParameterStorage::autocast && config.lora.rank == 0)
    result.masters =
        (config.precision.params == train::ParameterStorage::split ? 2 : 4) * result.trained_count;
  const DType type = train::uses_autocast(config.precision.matmul)
                         ? train::autocast_type(config.precision.matmul)
                         : DType::f32;
  result.logits =
      train::loss_chunk(config) * config.model.vocab * static_cast<int64_t>(size_of(type));
  if (takes_statistics(config)) result.statistics = statistics_bytes(run, config);
  run.model().state_dict();  // as for a checkpoint, which drops quantized copies of weights
  result.between_steps = run.memory().allocated;
  result.precision = config.precision.matmul;
  result.observed_blocks = observed_blocks(config);
  result.casts_weights = train::uses_autocast(config.precision.matmul) &&
                         (config.precision.params == train::ParameterStorage::autocast ||
                          config.precision.matmul == train::Precision::quantized);
  const auto stored = static_cast<int64_t>(size_of(train::placement(config).dtype));
  const int64_t weights =
      config.lora.rank > 0 ? 4 * result.trained_count : stored * result.parameter_count;
  // A snapshot is in the host's memory. Split master weights are saved in f32.
  const int64_t joined =
      config.precision.params == train::ParameterStorage::split ? result.masters : 0;
  if (backend::capabilities(train::device_of(config)).is_host_readable)
    result.snapshot = weights + result.of(Category::optimizer) + joined;
  result.saves_during_steps =
      config.run.checkpoint_every > 0 && config.run.checkpoint_every < config.train.steps;
  return result;
}

int64_t Forecast::with_run(int64_t steps) const {
  // A step with statistics may run while a checkpoint is written.
  if (saves_during_steps) return steps + statistics + snapshot;
  // At the end no step runs any more: parameters, gradients and the optimizer's state are left.
  return std::max(steps + statistics, between_steps + snapshot);
}

int64_t largest_batch(train::Config config, int64_t bytes) {
  struct Point {
    int64_t batch = 0;
    double peak = 0;
  };
  const auto point_at = [&config](int64_t batch) {
    config.train.batch = batch;
    return Point{batch, static_cast<double>(train::forecast_memory(config).peak)};
  };
  const auto limit = static_cast<double>(bytes);
  constexpr int64_t most = int64_t{1} << 17;  // no machine trains on more
  Point good = point_at(1), bad;
  if (good.peak > limit) return 0;
  // A forecast takes longer the larger the batch is, so the search for one that does not fit begins
  // near those that do.
  for (int64_t batch = 2;; batch = std::min(8 * batch, most)) {
    const Point next = point_at(batch);
    if (next.peak > limit) {
      bad = next;
      break;
    }
    good = next;
    if (batch == most) return most;
  }
  // Peaks grow nearly in proportion to the batch: a line finds the largest in a few forecasts.
  for (int i = 0; bad.batch - good.batch > 1; ++i) {
    const double slope = (bad.peak - good.peak) / static_cast<double>(bad.batch - good.batch);
    const auto on_line = static_cast<int64_t>((limit - good.peak) / slope);
    const bool halve = i % 4 == 3;  // in case they do not
    const int64_t step = halve ? (bad.batch - good.batch) / 2 : on_line;
    const Point next =
        point_at(good.batch + std::clamp<int64_t>(step, 1, bad.batch - good.batch - 1));
    (next.peak <= limit ? good : bad) = next;
  }
  return good.batch;
}

int64_t program_memory() {
  memory::release_cached();
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return file ? resident * ::sysconf(_SC_PAGESIZE) - memory::statistics().reserved : 0;
}

namespace {

PlanRow forecast_row(const std::string& name, const train::Config& config, int64_t memory,
                     bool on_gpu) {
  PlanRow row{.name = name, .config = config, .forecast = forecast(config)};
  if (on_gpu) row.forecast.snapshot = 0;  // in the host's memory
  // Statistics and checkpoints take the same besides the steps of any batch.
  const int64_t left = memory - (row.forecast.run_peak() - row.forecast.peak);
  // Forecasts of large models take long, and are needless if the weights alone are too large.
  if (row.forecast.of(Category::parameters) < left) row.largest_batch = largest_batch(config, left);
  return row;
}

// TF32 changes nothing but the rate of matmuls.
PlanRow tf32_row(const std::string& name, const train::Config& config, PlanRow fp32) {
  fp32.name = name;
  fp32.config = config;
  fp32.forecast.precision = config.precision.matmul;
  return fp32;
}

// Of 40 runs on an idle machine, 30 were within 8% of the forecast and all within 25%
// (docs/lab.md). Others that take a part of the CPUs make the measurements that much too slow.
SpeedRange speed_here(const PlanRow& row, const Machine& machine, double other_load) {
  constexpr double below = 0.2, above = 0.25, least_left = 0.05;
  const train::Config& c = row.config;
  const auto tokens = static_cast<double>(train::step_tokens(c));
  const double likely = tokens / step_seconds(row.forecast, machine);
  return {.low = likely * (1 - below),
          .likely = likely,
          .high = likely * (1 + above) / std::max(1 - other_load, least_left)};
}

}  // namespace

Plan plan(const train::Config& config, int64_t memory, const Gpu* gpu) {
  train::check_device(config);
  Plan result;
  std::optional<Machine> machine;
  if (gpu == nullptr) {
    const OtherLoad others;
    machine = measure_machine(config);
    result.other_load = others.fraction();
  }
  const bool in_host_memory =
      gpu == nullptr && backend::capabilities(train::device_of(config)).is_host_readable;
  const int64_t program = in_host_memory ? program_memory() : 0;
  std::vector<PlanRow>& rows = result.rows;
  for (const auto& [name, variant] : variants(gpu != nullptr ? on_a_gpu(config) : config)) {
    // Two rows before it is the same in fp32: with or without recompute.
    PlanRow row = variant.precision.matmul == train::Precision::tf32
                      ? tf32_row(name, variant, rows[rows.size() - 2])
                      : forecast_row(name, variant, memory, gpu != nullptr);
    if (program > 0) row.process = program + data_memory(config) + row.forecast.run_reserved();
    row.speed = machine ? speed_here(row, *machine, result.other_load)
                        : speed_on(*gpu, variant, row.forecast);
    rows.push_back(std::move(row));
  }
  return result;
}

namespace {

struct PlanColumn {
  const char* header;
  int width;
  std::string (*text)(const PlanRow& row, int64_t memory);
};

int64_t activations_and_copies(const Forecast& f) {
  return f.of(Category::activations) + f.of(Category::workspace);
}
int64_t copies_at_peak(const Forecast& f) {
  return std::min(f.weight_copies, activations_and_copies(f));
}

// Two digits, and three from 100,000 on: "1.2", "540", "17k", "593k".
std::string rounded_speed(double tokens_per_second) {
  if (tokens_per_second < 100) return fmt::format("{:.2g}", tokens_per_second);
  const double digits = tokens_per_second < 1e5 ? 2 : 3;
  const double unit = std::pow(10, std::floor(std::log10(tokens_per_second)) + 1 - digits);
  const double value = std::round(tokens_per_second / unit) * unit;
  return value < 1e4 ? fmt::format("{:g}", value) : fmt::format("{:g}k", value / 1e3);
}

std::string speed_text(const SpeedRange& speed) {
  return rounded_speed(speed.low) + "-" + rounded_speed(speed.high);
}

// The memory of a step by its parts, then the whole run.
constexpr PlanColumn step_columns[] = {
    {"weights", 8,
     [](const PlanRow& r, int64_t) {
       return train::bytes_text(r.forecast.of(Category::parameters));
     }},
    {"masters", 8, [](const PlanRow& r, int64_t) { return train::bytes_text(r.forecast.masters); }},
    {"grads", 8,
     [](const PlanRow& r, int64_t) {
       return train::bytes_text(r.forecast.of(Category::gradients));
     }},
    {"moments", 8,
     [](const PlanRow& r, int64_t) {
       return train::bytes_text(r.forecast.of(Category::optimizer) - r.forecast.masters);
     }},
    {"copies", 8,
     [](const PlanRow& r, int64_t) { return train::bytes_text(copies_at_peak(r.forecast)); }},
    {"activ.", 8,
     [](const PlanRow& r, int64_t) {
       return train::bytes_text(activations_and_copies(r.forecast) - copies_at_peak(r.forecast));
     }},
    {"logits", 8, [](const PlanRow& r, int64_t) { return train::bytes_text(r.forecast.logits); }}};
constexpr PlanColumn run_columns[] = {
    {"snapshot", 9,
     [](const PlanRow& r, int64_t) { return train::bytes_text(r.forecast.snapshot); }},
    {"peak", 8, [](const PlanRow& r, int64_t) { return train::bytes_text(r.forecast.run_peak()); }},
    {"RSS", 8,
     [](const PlanRow& r, int64_t) {
       return r.process > 0 ? train::bytes_text(r.process) : std::string("-");
     }},
    {"fits", 5,
     [](const PlanRow& r, int64_t memory) {
       return std::string(r.forecast.run_peak() <= memory ? "yes" : "no");
     }},
    {"batch", 8, [](const PlanRow& r, int64_t) { return grouped(r.largest_batch); }},
    {"tokens/s", 12, [](const PlanRow& r, int64_t) { return speed_text(r.speed); }}};

// The name of a row and some columns.
std::string table_text(const std::vector<PlanRow>& rows, int64_t memory,
                       std::span<const std::span<const PlanColumn>> groups) {
  constexpr int name_width = 24;
  std::string text = fmt::format("{:<{}}", "precision", name_width);
  for (const auto& group : groups) {
    for (const PlanColumn& column : group)
      text += fmt::format("{:>{}}", column.header, column.width);
  }
  for (const PlanRow& row : rows) {
    text += fmt::format("\n{:<{}}", row.name, name_width);
    for (const auto& group : groups) {
      for (const PlanColumn& column : group)
        text += fmt::format("{:>{}}", column.text(row, memory), column.width);
    }
  }
  return text + "\n";
}

}  // namespace

std::string plan_text(const std::vector<PlanRow>& rows, int64_t memory, int width) {
  using Groups = std::vector<std::span<const PlanColumn>>;
  const std::string wide = table_text(rows, memory, Groups{step_columns, run_columns});
  if (std::cmp_less_equal(wide.find('\n'), width)) return wide;
  return table_text(rows, memory, Groups{run_columns}) + "\n" +
         table_text(rows, memory, Groups{step_columns});
}

}  // namespace binade::lab
