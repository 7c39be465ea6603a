#include "binade/train/report/peak_throughput.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>

#include "binade/amp/autocast.h"
#include "binade/amp/capability.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/parallel.h"
#include "binade/nn/linear.h"
#include "binade/ops/copy.h"
#include "binade/ops/create.h"
#include "binade/ops/shape.h"

namespace binade::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double budget = 0.06;  // seconds
constexpr int64_t cpu_size = 768, gpu_size = 8192;

double measure(const Config& config) {
  const Device device = parse_device(config.device);
  const int64_t n = device.is_cpu() ? cpu_size : gpu_size;
  const NoGrad no_grad;
  const memory::CategoryGuard category(memory::Category::workspace);
  const DType type = uses_autocast(config) ? autocast_type(config) : DType::f32;
  const amp::Autocast cast(autocast_type(config), uses_autocast(config));
  // Where FP8 is emulated its products run in the autocast type.
  const bool fp8_is_native = amp::matmul_support(DType::e4m3, device) == amp::Support::native;
  amp::Fp8State fp8_wanted = fp8_state(config);
  fp8_wanted.enabled = fp8_wanted.enabled && fp8_is_native;
  const amp::Fp8Autocast fp8(std::move(fp8_wanted));
  nn::Linear product({.in = n, .out = n, .bias = false}, {device, type});
  const Tensor x = full({n, n}, 0.5, type, device);
  const auto seconds = [&](int64_t times) {
    const auto begin = Clock::now();
    Tensor y;
    for (int64_t i = 0; i < times; ++i) y = product(x);
    to(slice(y, 0, 0, 1), Device::cpu());  // waits for the device
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  double best = seconds(1), spent = best;
  while (spent < budget) {
    const int64_t times = std::clamp<int64_t>(static_cast<int64_t>(0.005 / best), 1, 1000);
    const double elapsed = seconds(times);
    spent += elapsed;
    best = std::min(best, elapsed / static_cast<double>(times));
  }
  const auto side = static_cast<double>(n);
  return 2 * side * side * side / best;
}

}  // namespace

double flops_per_token(const nn::LanguageModelConfig& c) {
  const int64_t head_dim = c.width / c.heads, kv_heads = c.kv_heads == 0 ? c.heads : c.kv_heads;
  const int64_t attention = c.width * head_dim * (2 * c.heads + 2 * kv_heads);
  const int64_t mlp = c.width * c.hidden * (c.gated ? 3 : 2);
  const int64_t weights = c.layers * (attention + mlp) + c.vocab * c.width;
  return 6 * static_cast<double>(weights) +
         6 * static_cast<double>(c.layers * c.width) * static_cast<double>(c.context);
}

double measured_peak(const Config& config) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::string, int>, double> known;
  const std::lock_guard lock(mutex);
  auto [found, is_new] = known.try_emplace({config.precision, config.device, threads()}, 0);
  if (is_new) found->second = measure(config);
  return found->second;
}

double full_speed(const Config& config) {
  return measured_peak(config) / flops_per_token(model_config(config));
}

}  // namespace binade::train
