#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "binade/amp/capability.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/capabilities.h"
#include "binade/bench/machine.h"
#include "binade/lab/experiments.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/norm/softmax.h"
#include "binade/train/config/component_options.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

// Larger than caches, so that memory-bound ops read memory: 8 MB in f32, 64 MB on a GPU.
constexpr int64_t rows_on_cpu = 2048, rows_on_gpu = 16384, row_length = 1024;
constexpr double seconds_per_op = 0.1;

struct TimedOp {
  const char* name;
  SpeedUpResult::Bound bound;
  double flops, elements;  // arithmetic, and elements read and written
  std::function<Tensor(const std::vector<Tensor>&)> run;
  std::vector<Shape> operands;
};

std::vector<TimedOp> timed_ops(int64_t rows) {
  using Bound = SpeedUpResult::Bound;
  using In = const std::vector<Tensor>&;
  const double n = static_cast<double>(rows * row_length);
  const Shape matrix = {rows, row_length};
  return {
      {"matmul 512 x 512 x 512",
       Bound::compute,
       2 * 512. * 512 * 512,
       3 * 512. * 512,
       [](In in) { return matmul(in[0], in[1]); },
       {{512, 512}, {512, 512}}},
      {"conv2d 3 x 3, 64 channels",
       Bound::compute,
       2 * 4 * 32 * 32 * 64. * 64 * 9,
       2 * 4 * 32 * 32 * 64. + 64 * 64 * 9,
       [](In in) { return conv2d(in[0], in[1], {}, {.padding = {1}}); },
       {{4, 64, 32, 32}, {64, 64, 3, 3}}},
      {"add", Bound::memory, n, 3 * n, [](In in) { return add(in[0], in[1]); }, {matrix, matrix}},
      {"relu", Bound::memory, n, 2 * n, [](In in) { return relu(in[0]); }, {matrix}},
      {"layer_norm",
       Bound::memory,
       8 * n,
       2 * n,
       [](In in) { return layer_norm(in[0]); },
       {matrix}},
      {"softmax",
       Bound::memory,
       8 * n,
       2 * n,
       [](In in) { return softmax(in[0], -1, in[0].dtype()); },
       {matrix}}};
}

SpeedUpResult::Op measured(const TimedOp& op, Device device) {
  std::vector<std::vector<Tensor>> operands;
  const DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  for (const DType dtype : dtypes) {
    operands.emplace_back();
    for (size_t i = 0; i < op.operands.size(); ++i)
      operands.back().push_back(cast(randn(op.operands[i], {21, i}, DType::f32, device), dtype));
  }
  std::vector<std::function<void()>> contestants;
  for (const auto& given : operands) contestants.push_back([&op, &given] { op.run(given); });
  // The CPU's own time, which a busy machine does not disturb, if its kernels run there.
  const bool in_background = backend::capabilities(device).is_asynchronous;
  bench::set_bench_clock(in_background ? bench::Clock::wall : bench::Clock::cpu);
  const std::vector<double> seconds = bench::contest(device, contestants, seconds_per_op);
  bench::set_bench_clock(bench::Clock::wall);
  return {op.name, op.bound, op.flops / (4 * op.elements), seconds[0] / seconds[1],
          seconds[0] / seconds[2]};
}

}  // namespace

SpeedUpResult speed_up_experiment(ExperimentReport& report) {
  const NoGrad no_grad;
  const Device device = train::device_of({});
  const auto support = [&](DType dtype) {
    return std::string(amp::name(amp::matmul_support(dtype, device)));
  };
  report.add_paragraph(fmt::format(
      "How much faster is 16-bit arithmetic than f32? Each op runs in f32, bf16 and f16 in turns "
      "on "
      "this machine ({}); its best times are compared. An op with many operations per byte is "
      "bound "
      "by arithmetic, one with few by memory, where half the bytes can at best take half the time. "
      "Matmuls here are {} in bf16 and {} in f16.",
      bench::device_text(device), support(DType::bf16), support(DType::f16)));
  SpeedUpResult result;
  std::vector<std::vector<std::string>> table;
  std::vector<train::Bar> bars;
  const bool large = backend::capabilities(device).is_massively_parallel;
  for (const TimedOp& op : timed_ops(large ? rows_on_gpu : rows_on_cpu)) {
    result.ops.push_back(measured(op, device));
    const SpeedUpResult::Op& one = result.ops.back();
    const auto times = [](double ratio) { return fmt::format("{:.1f}x", ratio); };
    table.push_back({one.name, one.bound == SpeedUpResult::Bound::compute ? "compute" : "memory",
                     fmt::format("{:.3g}", one.flops_per_byte), times(one.bf16), times(one.f16)});
    bars.push_back({one.name, one.bf16, times(one.bf16), train::format_style("bf16")});
  }
  report.add_table({"op", "bound by", "FLOP per byte in f32", "bf16 vs f32", "f16 vs f32"}, table);
  report.add_figure(train::bar_chart("Speed of bf16 relative to f32", bars));
  const auto range = [&](SpeedUpResult::Bound bound) {
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (const SpeedUpResult::Op& one : result.ops) {
      if (one.bound != bound) continue;
      low = std::min(low, one.bf16);
      high = std::max(high, one.bf16);
    }
    return fmt::format("{:.1f} to {:.1f} times", low, high);
  };
  report.add_conclusion(fmt::format(
      "on this machine bf16 makes ops bound by arithmetic {} as fast as f32 and ops bound by "
      "memory "
      "{}. The first depends on the matrix units of the hardware, the second on the bytes alone "
      "unless the conversions take longer than the memory.",
      range(SpeedUpResult::Bound::compute), range(SpeedUpResult::Bound::memory)));
  return result;
}

}  // namespace binade::lab
