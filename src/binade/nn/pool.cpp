#include "binade/nn/pool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "binade/ops/conv/pool.h"

namespace binade::nn {
namespace {

std::string described(const char* name, const PoolOptions& options) {
  return fmt::format("{}(kernel {}, stride {}, padding {})", name, fmt::join(options.kernel, " x "),
                     fmt::join(options.stride.empty() ? options.kernel : options.stride, " x "),
                     fmt::join(options.padding, " x "));
}

}  // namespace

std::string MaxPool::description() const { return described("MaxPool", options); }
std::string AvgPool::description() const { return described("AvgPool", options); }

std::string AdaptivePool::description() const {
  return fmt::format("{}({})", Layer::description(), fmt::join(sizes, " x "));
}

Tensor AdaptiveAvgPool::forward(const Tensor& x) { return adaptive_avg_pool(x, sizes); }
Tensor AdaptiveMaxPool::forward(const Tensor& x) { return adaptive_max_pool(x, sizes); }

}  // namespace binade::nn
