#include "binade/nn/pool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

}  // namespace binade::nn
