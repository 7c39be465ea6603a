#include "binade/lab/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "binade/autograd/module_path.h"
#include "binade/backend/backend.h"
#include "binade/ops/copy.h"
#include "binade/ops/create.h"

namespace binade::lab {
namespace {

Shape index_of(int64_t flat, const Shape& shape) {
  Shape index = Shape::filled(shape.rank(), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

// "[2, 3] bf16".
std::string shape_and_type(const Tensor& x) {
  return fmt::format("{} {}", to_string(x.shape()), name(x.dtype()));
}

double largest_finite(std::span<const Tensor> tensors) {
  double largest = 0;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || !is_compute(tensor.dtype())) continue;
    for (const double value : to_vector(tensor.detach())) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  }
  return largest;
}

Tensor gradient_in(const autograd::GradSlot& slot) {
  const std::shared_ptr<autograd::AutogradMeta>& meta = slot.meta();
  if (meta == nullptr) return {};
  if (meta->node != nullptr) {
    const auto output = static_cast<size_t>(meta->output);
    return output < meta->node->gradients.size() ? meta->node->gradients[output] : Tensor();
  }
  return meta->holds_gradient ? meta->grad : Tensor();
}

// "result", or "result 1" if there are several.
std::string numbered(const char* noun, size_t i, size_t count) {
  return count > 1 ? fmt::format("{} {}", noun, i) : std::string(noun);
}

}  // namespace

std::optional<NonFinite> first_non_finite(const Tensor& x) {
  if (!x.defined() || !is_compute(x.dtype()) || x.device().is_meta() || x.numel() == 0) return {};
  const Tensor flags = Tensor::empty(x.shape(), DType::boolean, x.device());
  backend::of(x).elementwise.unary(backend::Unary::is_finite, {}, x, flags);
  const Tensor host = to(flags, Device::cpu());
  const bool* is_finite = host.data<bool>();
  const void* first = std::memchr(is_finite, 0, static_cast<size_t>(x.numel()));
  if (first == nullptr) return {};
  NonFinite bad;
  const int64_t flat = static_cast<const bool*>(first) - is_finite;
  bad.index = index_of(flat, x.shape());
  int64_t offset = x.offset();
  for (int axis = 0; axis < x.rank(); ++axis) offset += bad.index[axis] * x.strides()[axis];
  bad.value = x.strided({}, {}, offset).item();
  for (int64_t i = flat; i < x.numel(); ++i) bad.count += is_finite[i] ? 0 : 1;
  return bad;
}

std::string_view name(Direction direction) {
  constexpr std::string_view names[] = {"forward", "backward", "optimizer"};
  return names[static_cast<size_t>(direction)];
}

std::string scale_text(double scale) {
  const double power = std::log2(scale);
  return power == std::floor(power) && power >= 10 ? fmt::format("2^{:g}", power)
                                                   : fmt::format("{:g}", scale);
}

std::string to_text(const Finding& f) {
  constexpr const char* origins[] = {"came with the data",           "was in a parameter",
                                     "was caused by the input cast", "was computed by this op",
                                     "was in the incoming gradient", "was computed by the update"};
  std::string text = fmt::format(
      "first non-finite value: {} at {} of {}\n  op {}{}, {}; it {}; {} of its elements {} "
      "non-finite",
      f.first.value, to_string(f.first.index), f.tensor, f.op,
      f.module.empty() ? "" : " in " + f.module, name(f.direction),
      origins[static_cast<size_t>(f.origin)], f.first.count, f.first.count == 1 ? "is" : "are");
  text += fmt::format("\n  largest finite input magnitude: {:.6g}; loss scale {}", f.largest_input,
                      scale_text(f.scale));
  return text;
}

FaultFinder::FaultFinder(NamedTensors parameters, double scale)
    : parameters_(std::move(parameters)), scale_(scale) {}

int FaultFinder::earlier(int a, int b) {
  if (a == none || b == none) return std::max(a, b);
  return std::min(a, b);
}

int FaultFinder::add_event(Finding finding) {
  finding.scale = scale_;
  events_.push_back(std::move(finding));
  return static_cast<int>(events_.size()) - 1;
}

void FaultFinder::attribute_to_backward(int event) {
  if (!running_backwards_.empty())
    running_backwards_.back() = earlier(running_backwards_.back(), event);
}

std::string FaultFinder::parameter_name(const Tensor& tensor) const {
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.storage() == tensor.storage()) return name;
  }
  return "";
}

std::string FaultFinder::parameter_name(const autograd::AutogradMeta* meta) const {
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.autograd_meta().get() == meta) return name;
  }
  return "";
}

// The event behind a non-finite input; a new one if no observed op computed the input.
int FaultFinder::trace_input(Op op, size_t i, const Tensor& input) {
  const auto bad = first_non_finite(input);
  if (!bad) return none;
  const auto known = by_storage_.find(input.storage().get());
  if (known != by_storage_.end()) return known->second;
  const std::string parameter = parameter_name(input);
  const int event = add_event(
      {.op = std::string(name(op)),
       .module = autograd::module_path(),
       .direction = parameter.empty() ? Direction::forward : Direction::optimizer,
       .origin = parameter.empty() ? Origin::data : Origin::parameter,
       .tensor = parameter.empty() ? fmt::format("input {} {}", i, shape_and_type(input))
                                   : fmt::format("{} {}", parameter, shape_and_type(input)),
       .dtype = input.dtype(),
       .first = *bad,
       .largest_input = largest_finite({&input, 1})});
  by_storage_[input.storage().get()] = event;
  held_.push_back(input.storage());
  return event;
}

void FaultFinder::forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
                          std::span<const Tensor> outputs) {
  int cause = none;
  for (size_t i = 0; i < inputs.size(); ++i) cause = earlier(cause, trace_input(op, i, inputs[i]));
  const auto add = [&](Origin origin, const std::string& tensor, const Tensor& x,
                       const NonFinite& bad, std::span<const Tensor> op_inputs) {
    return add_event({.op = std::string(name(op)),
                      .module = autograd::module_path(),
                      .origin = origin,
                      .tensor = fmt::format("{} {}", tensor, shape_and_type(x)),
                      .dtype = x.dtype(),
                      .first = bad,
                      .largest_input = largest_finite(op_inputs)});
  };
  for (size_t i = 0; cause == none && i < compute.size(); ++i) {
    if (!compute[i].defined() || compute[i].same_as(inputs[i])) continue;
    if (const auto bad = first_non_finite(compute[i]))
      cause = add(Origin::cast, fmt::format("cast input {}", i), compute[i], *bad,
                  inputs.subspan(i, 1));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto bad = first_non_finite(outputs[i]);
    if (!bad) continue;
    if (cause == none)
      cause = add(Origin::op, numbered("result", i, outputs.size()), outputs[i], *bad, compute);
    by_storage_.try_emplace(outputs[i].storage().get(), cause);
    held_.push_back(outputs[i].storage());
  }
  attribute_to_backward(cause);
  for (const Tensor& output : outputs) {
    const auto& meta = output.autograd_meta();
    if (cause != none && meta != nullptr && meta->node != nullptr)
      by_forward_.try_emplace(meta->node->sequence, cause);
  }
}

void FaultFinder::before_backward(const autograd::Node&) { running_backwards_.push_back(none); }

void FaultFinder::after_backward(const autograd::Node& node, std::span<const Tensor> dy) {
  const int inside = running_backwards_.back();
  running_backwards_.pop_back();
  int cause = none;
  for (size_t i = 0; i < dy.size(); ++i) cause = earlier(cause, trace_result_gradient(node, i, dy));
  // A non-finite value that the forward masked may reappear as 0 * inf: the forward is the cause.
  const auto masked = by_forward_.find(node.sequence);
  if (cause == none && masked != by_forward_.end()) cause = masked->second;
  if (cause == none && node.opaque) cause = inside;
  for (size_t i = 0; i < node.inputs.size(); ++i) cause = trace_input_gradient(node, i, cause, dy);
  attribute_to_backward(cause == none ? inside : cause);
}

// The event behind a non-finite gradient dy[i]; a new one if no observed backward computed it.
int FaultFinder::trace_result_gradient(const autograd::Node& node, size_t i,
                                       std::span<const Tensor> dy) {
  const auto bad = first_non_finite(dy[i]);
  if (!bad) return none;
  const auto known = by_result_gradient_.find({node.sequence, static_cast<int>(i)});
  if (known != by_result_gradient_.end()) return known->second;
  return add_event({.op = std::string(name(node.op)),
                    .module = node.module,
                    .direction = Direction::backward,
                    .origin = Origin::seed,
                    .tensor = "gradient of its result " + shape_and_type(dy[i]),
                    .dtype = dy[i].dtype(),
                    .first = *bad,
                    .largest_input = largest_finite(dy.subspan(i, 1))});
}

// Assigns the gradient of input i, if non-finite, to `cause`, or to a new event if there is no
// cause. Returns the cause.
int FaultFinder::trace_input_gradient(const autograd::Node& node, size_t i, int cause,
                                      std::span<const Tensor> dy) {
  const Tensor gradient = gradient_in(node.inputs[i]);
  const auto bad = first_non_finite(gradient);
  if (!bad) return cause;
  const autograd::AutogradMeta* meta = node.inputs[i].meta().get();
  const bool leaf = meta->node == nullptr;
  const ResultKey key = leaf ? ResultKey{} : ResultKey{meta->node->sequence, meta->output};
  if (leaf ? by_leaf_gradient_.contains(meta) : by_result_gradient_.contains(key)) return cause;
  if (cause == none) {
    const std::string parameter = leaf ? parameter_name(meta) : "";
    cause =
        add_event({.op = std::string(name(node.op)),
                   .module = node.module,
                   .direction = Direction::backward,
                   .origin = Origin::op,
                   .tensor = fmt::format("gradient of {} {}",
                                         parameter.empty() ? fmt::format("input {}", i) : parameter,
                                         shape_and_type(gradient)),
                   .dtype = gradient.dtype(),
                   .first = *bad,
                   .largest_input = largest_finite(dy)});
  }
  (leaf ? by_leaf_gradient_[meta] : by_result_gradient_[key]) = cause;
  return cause;
}

const Finding* FaultFinder::origin(const Tensor& x) const {
  if (!first_non_finite(x)) return nullptr;
  const auto found = by_storage_.find(x.storage().get());
  return found == by_storage_.end() ? nullptr : &events_[static_cast<size_t>(found->second)];
}

const Finding* FaultFinder::gradient_origin() const {
  int first = none;
  for (const auto& [meta, event] : by_leaf_gradient_) first = earlier(first, event);
  return first == none ? nullptr : &events_[static_cast<size_t>(first)];
}

std::optional<Finding> examine_update(optim::Optimizer& optimizer, const NamedTensors& parameters,
                                      double scale) {
  const StateDict state = optimizer.state_dict();
  const std::vector<Tensor> updated = optimizer.parameters();
  for (size_t i = 0; i < updated.size(); ++i) {
    std::string parameter = fmt::format("parameter {}", i);
    for (const auto& [name, tensor] : parameters) {
      if (tensor.same_as(updated[i])) parameter = name;
    }
    const size_t dot = parameter.rfind('.');
    const auto part = [&](const char* entry) {
      const auto found = state.find(fmt::format("{}.{}", i, entry));
      return found == state.end() ? Tensor() : found->second;
    };
    // A non-finite value of an 8-bit moment is in its scales.
    const auto moment = [&](const std::string& entry) {
      const Tensor state = part(entry.c_str());
      return state.defined() && state.dtype() == DType::u8 ? part((entry + "_scale").c_str())
                                                           : state;
    };
    const std::pair<const char*, Tensor> parts[] = {{"gradient of ", updated[i].grad()},
                                                    {"first moment of ", moment("first")},
                                                    {"second moment of ", moment("second")},
                                                    {"master weight of ", part("master")},
                                                    {"", updated[i]}};
    for (const auto& [label, tensor] : parts) {
      const auto bad = first_non_finite(tensor);
      if (!bad) continue;
      const bool is_gradient = tensor.same_as(updated[i].grad());
      return Finding{.op = std::string(optimizer.name()),
                     .module = dot == std::string::npos ? "" : parameter.substr(0, dot),
                     .direction = is_gradient ? Direction::backward : Direction::optimizer,
                     .origin = is_gradient ? Origin::seed : Origin::update,
                     .tensor = fmt::format("{}{} {}", label, parameter, shape_and_type(tensor)),
                     .dtype = tensor.dtype(),
                     .first = *bad,
                     .largest_input = largest_finite(std::vector<Tensor>{updated[i].grad()}),
                     .scale = scale};
    }
  }
  return {};
}

}  // namespace binade::lab
