#include "binade/lab/replay/capture.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/amp/autocast.h"
#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/autograd/recompute.h"
#include "binade/base/random.h"
#include "binade/base/text.h"
#include "binade/lab/layer_stats.h"
#include "binade/ops/create/copy.h"

namespace binade::lab {
namespace {

// Streams of a micro-batch (random::begin_micro_batch).
constexpr int64_t streams_of_micro = 4096;

int64_t current_micro() { return random::context().next_stream / streams_of_micro; }

// For its lifetime, ops are neither recorded nor observed nor cast.
struct QuietScope {
  NoGrad no_grad;
  autograd::OpObserverScope no_observer{nullptr};
  amp::Autocast no_autocast{amp::disabled_autocast()};
};

Tensor copy_of(const Tensor& x) {
  const QuietScope quiet;
  const Tensor host = to(x.detach(), Device::cpu());
  return x.device() == Device::cpu() ? clone(host) : host;
}

std::string after_kind(const std::string& name) {
  const size_t slash = name.find('/');
  return slash == name.npos ? name : name.substr(slash + 1);
}

}  // namespace

bool matches_tensor(const std::string& pattern, const std::string& name) {
  const std::string rest = after_kind(name);
  return matches_glob(pattern, name) || matches_glob(pattern, rest) ||
         matches_module(pattern, rest.substr(0, rest.find('/')));
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return patterns.empty() || std::ranges::any_of(patterns, [&name](const std::string& pattern) {
           return matches_tensor(pattern, name);
         });
}

Capture::Capture(int64_t micro, std::vector<std::string> patterns)
    : micro_(micro), patterns_(std::move(patterns)) {}

std::string Capture::place_of(Op op, bool again) {
  const std::string& module = autograd::module_path();
  std::string place = (module.empty() ? "" : module + "/") + std::string(name(op));
  const int count = ++counts_[{again, place}];
  return count == 1 ? place : fmt::format("{}#{}", place, count);
}

void Capture::add(const std::string& kind, const OpName& name, size_t index, const Tensor& value,
                  Op op, const std::string& module) {
  if (!value.defined() || value.device().is_meta()) return;
  std::string full = kind + "/" + name.place + (index == 0 ? "" : fmt::format(".{}", index));
  if (!matches_any(patterns_, full)) return;
  if (micro_ < 0) full = fmt::format("micro.{}/{}", name.micro, full);
  tensors_.push_back({full, op, module, copy_of(value)});
}

void Capture::forward(Op op, std::span<const Tensor>, std::span<const Tensor>,
                      std::span<const Tensor> outputs) {
  const int64_t micro = current_micro();
  if (micro != counted_micro_) {
    counts_.clear();
    counted_micro_ = micro;
  }
  const bool again = autograd::recomputing();
  const OpName name{place_of(op, again), micro};
  if (!outputs.empty() && outputs[0].defined()) {
    const auto& meta = outputs[0].autograd_meta();
    if (meta != nullptr && meta->node != nullptr) by_node_[meta->node->sequence] = name;
  }
  if (again || (micro_ >= 0 && micro != micro_)) return;
  for (size_t i = 0; i < outputs.size(); ++i)
    add("activation", name, i, outputs[i], op, autograd::module_path());
}

void Capture::after_backward(const autograd::Node& node, std::span<const Tensor> dy) {
  const auto found = by_node_.find(node.sequence);
  if (found == by_node_.end() || (micro_ >= 0 && found->second.micro != micro_)) return;
  for (size_t i = 0; i < dy.size(); ++i)
    add("gradient", found->second, i, dy[i], node.op, node.module);
}

}  // namespace binade::lab
