#include "binade/bench/step_cost.h"

#include <fmt/format.h>

#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>

#include "binade/backend/capabilities.h"
#include "binade/backend/gpu.h"
#include "binade/bench/machine.h"

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

// Seconds per step, one entry per part of the timed steps.
std::vector<double> timed(Device device, int64_t steps, const Step& step) {
  const int64_t parts =
      backend::capabilities(device).is_asynchronous ? std::min<int64_t>(5, steps) : steps;
  std::vector<double> result;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t count = steps * (part + 1) / parts - steps * part / parts;
    wait_for(device);
    const double start = bench_clock();
    for (int64_t i = 0; i < count; ++i) step();
    wait_for(device);
    result.push_back((bench_clock() - start) / static_cast<double>(count));
  }
  return result;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

StepCost measure_steps(Device device, const StepBenchOptions& options, double start,
                       const Step& step) {
  StepCost cost;
  for (int64_t i = 0; i < options.warmup; ++i) {
    step();
    if (i > 0) continue;
    wait_for(device);
    cost.first_step_since_model = bench_clock() - start;
    cost.first_step_since_start = process_age();
  }
  memory::reset_peak(device);
  const int64_t misses = memory::statistics(device).misses;
  const std::optional<double> energy = backend::energy_joules(device);
  const std::vector<double> seconds = timed(device, options.steps, step);
  const std::optional<double> energy_after = backend::energy_joules(device);
  cost.memory = memory::statistics(device);
  cost.misses = cost.memory.misses - misses;
  cost.step_seconds = median(seconds);
  cost.best_step_seconds = *std::min_element(seconds.begin(), seconds.end());
  if (energy && energy_after)
    cost.joules = (*energy_after - *energy) / static_cast<double>(options.steps);
  return cost;
}

void profile_steps(Device device, const StepBenchOptions& options, const Step& step,
                   StepCost& cost) {
  const int64_t steps = std::min<int64_t>(options.steps, 5);
  const backend::Profiler profiler(device, backend::work_clock(device, bench_clock));
  wait_for(device);
  const double start = bench_clock();
  for (int64_t i = 0; i < steps; ++i) step();
  wait_for(device);
  cost.other_work = bench_clock() - start;
  cost.work = profiler.seconds();
  for (double& seconds : cost.work) {
    cost.other_work -= seconds;
    seconds /= static_cast<double>(steps);
  }
  cost.other_work /= static_cast<double>(steps);
}

std::string work_table(const std::vector<NamedCost>& rows) {
  std::string text = fmt::format("\n{:<9}", "work");
  for (int i = 0; i < backend::work_count; ++i)
    text += fmt::format(" {:>11}", backend::name(static_cast<backend::Work>(i)));
  text += fmt::format(" {:>11}\n", "other");
  for (const auto& [name, cost] : rows) {
    const double all = std::accumulate(cost->work.begin(), cost->work.end(), cost->other_work);
    text += fmt::format("{:<9}", name);
    for (const double seconds : cost->work) text += fmt::format(" {:>10.1f}%", 100 * seconds / all);
    text += fmt::format(" {:>10.1f}%\n", 100 * cost->other_work / all);
  }
  return text;
}

std::string memory_table(const std::vector<NamedCost>& rows) {
  std::string text = fmt::format("\n{:<9}", "peak MiB");
  for (int i = 0; i < memory::category_count; ++i)
    text += fmt::format(" {:>11}", memory::name(static_cast<memory::Category>(i)));
  text += fmt::format(" {:>11} {:>11}\n", "total", "reserved");
  for (const auto& [name, cost] : rows) {
    text += fmt::format("{:<9}", name);
    for (const int64_t bytes : cost->memory.at_peak)
      text += fmt::format(" {:>11.1f}", mebibytes(bytes));
    text += fmt::format(" {:>11.1f} {:>11.1f}\n", mebibytes(cost->memory.peak),
                        mebibytes(cost->memory.peak_reserved));
  }
  return text;
}

void write_number(json::Writer& out, std::string_view key, double value) {
  out.key(key);
  if (std::isfinite(value)) {
    out.value(value);
  } else {
    out.value(nullptr);
  }
}

void write_cost(json::Writer& out, const StepCost& cost) {
  write_number(out, "step_ms", cost.step_seconds * 1e3);
  write_number(out, "best_step_ms", cost.best_step_seconds * 1e3);
  write_number(out, "first_step_since_start_s", cost.first_step_since_start);
  write_number(out, "first_step_since_model_s", cost.first_step_since_model);
  out.key("work_ms").begin_object();
  for (int i = 0; i < backend::work_count; ++i)
    write_number(out, backend::name(static_cast<backend::Work>(i)),
                 cost.work[static_cast<size_t>(i)] * 1e3);
  write_number(out, "other", cost.other_work * 1e3);
  out.end_object();
  out.key("peak_bytes").value(cost.memory.peak).key("peak_bytes_by_category").begin_object();
  for (int i = 0; i < memory::category_count; ++i)
    out.key(memory::name(static_cast<memory::Category>(i)))
        .value(cost.memory.at_peak[static_cast<size_t>(i)]);
  out.end_object().key("peak_reserved_bytes").value(cost.memory.peak_reserved);
  out.key("misses_after_warmup").value(cost.misses);
}

}  // namespace binade::bench
