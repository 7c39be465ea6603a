#include "binade/lab/fault.h"

#include <fmt/format.h>

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

// "[2, 3] bf16": where it lives is of no interest here.
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
  const std::shared_ptr<autograd::Meta>& meta = slot.meta();
  if (meta == nullptr) return {};
  if (meta->node != nullptr) {
    const auto output = static_cast<size_t>(meta->output);
    return output < meta->node->gradients.size() ? meta->node->gradients[output] : Tensor();
  }
  return meta->holds_gradient ? meta->grad : Tensor();
}

std::string ordinal(const char* what, size_t i, size_t count) {
  return count > 1 ? fmt::format("{} {}", what, i) : std::string(what);
}

}  // namespace

std::optional<BadValue> first_bad(const Tensor& x) {
  if (!x.defined() || !is_compute(x.dtype()) || x.device().is_meta() || x.numel() == 0) return {};
  const Tensor flags = Tensor::empty(x.shape(), DType::boolean, x.device());
  backend::of(x).elementwise.unary(backend::Unary::is_finite, {}, x, flags);
  const Tensor host = to(flags, Device::cpu());
  const bool* finite = host.data<bool>();
  const void* first = std::memchr(finite, 0, static_cast<size_t>(x.numel()));
  if (first == nullptr) return {};
  BadValue bad;
  const int64_t flat = static_cast<const bool*>(first) - finite;
  bad.index = index_of(flat, x.shape());
  int64_t offset = x.offset();
  for (int axis = 0; axis < x.rank(); ++axis) offset += bad.index[axis] * x.strides()[axis];
  bad.value = x.strided({}, {}, offset).item();
  for (int64_t i = flat; i < x.numel(); ++i) bad.count += finite[i] ? 0 : 1;
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
  const char* made[] = {"came in with the data",
                        "was in a parameter",
                        "came of the cast before it",
                        "was made by it",
                        "was in the gradient it was given",
                        "was made by the update"};
  std::string text = fmt::format(
      "first value that is not finite: {} at {} of {}\n  op {}{}, {}; it {}; {} of its elements "
      "{} not finite",
      f.bad.value, to_string(f.bad.index), f.tensor, f.op,
      f.module.empty() ? "" : " in " + f.module, name(f.direction),
      made[static_cast<size_t>(f.origin)], f.bad.count, f.bad.count == 1 ? "is" : "are");
  text += fmt::format("\n  largest finite magnitude it was given: {:.6g}; loss scale {}",
                      f.largest_input, scale_text(f.scale));
  return text;
}

FaultFinder::FaultFinder(NamedTensors parameters, double scale)
    : parameters_(std::move(parameters)), scale_(scale) {}

int FaultFinder::note(Finding finding) {
  finding.scale = scale_;
  events_.push_back(std::move(finding));
  return static_cast<int>(events_.size()) - 1;
}

// Notes that a running backward met `event`, which it returns.
int FaultFinder::touch(int event) {
  if (event != none && !touched_.empty())
    touched_.back() = touched_.back() == none ? event : std::min(touched_.back(), event);
  return event;
}

std::string FaultFinder::parameter_name(const Tensor& tensor) const {
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.storage() == tensor.storage()) return name;
  }
  return "";
}

std::string FaultFinder::parameter_name(const autograd::Meta* meta) const {
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.autograd_meta().get() == meta) return name;
  }
  return "";
}

// An input that is not finite: where from, as far as that was seen.
int FaultFinder::of_input(Op op, size_t i, const Tensor& input) {
  const auto bad = first_bad(input);
  if (!bad) return none;
  const auto known = of_storage_.find(input.storage().get());
  if (known != of_storage_.end()) return known->second;
  const std::string parameter = parameter_name(input);
  const int event =
      note({.op = std::string(name(op)),
            .module = autograd::module_path(),
            .direction = parameter.empty() ? Direction::forward : Direction::optimizer,
            .origin = parameter.empty() ? Origin::data : Origin::parameter,
            .tensor = parameter.empty() ? fmt::format("input {} {}", i, shape_and_type(input))
                                        : fmt::format("{} {}", parameter, shape_and_type(input)),
            .dtype = input.dtype(),
            .bad = *bad,
            .largest_input = largest_finite({&input, 1})});
  of_storage_[input.storage().get()] = event;
  held_.push_back(input.storage());
  return event;
}

void FaultFinder::forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
                          std::span<const Tensor> outputs) {
  int from = none;
  const auto join = [&from](int event) {
    if (event != none) from = from == none ? event : std::min(from, event);
  };
  for (size_t i = 0; i < inputs.size(); ++i) join(of_input(op, i, inputs[i]));
  const auto made = [&](Origin origin, std::string tensor, const Tensor& x, const BadValue& bad,
                        std::span<const Tensor> given) {
    return note({.op = std::string(name(op)),
                 .module = autograd::module_path(),
                 .origin = origin,
                 .tensor = fmt::format("{} {}", tensor, shape_and_type(x)),
                 .dtype = x.dtype(),
                 .bad = bad,
                 .largest_input = largest_finite(given)});
  };
  for (size_t i = 0; from == none && i < compute.size(); ++i) {
    if (!compute[i].defined() || compute[i].same_as(inputs[i])) continue;
    if (const auto bad = first_bad(compute[i]))
      join(made(Origin::cast, fmt::format("input {} as", i), compute[i], *bad,
                inputs.subspan(i, 1)));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto bad = first_bad(outputs[i]);
    if (!bad) continue;
    if (from == none)
      from = made(Origin::op, ordinal("result", i, outputs.size()), outputs[i], *bad, compute);
    of_storage_.try_emplace(outputs[i].storage().get(), from);
    held_.push_back(outputs[i].storage());
  }
  touch(from);
  for (const Tensor& output : outputs) {
    const auto& meta = output.autograd_meta();
    if (from != none && meta != nullptr && meta->node != nullptr)
      of_forward_.try_emplace(meta->node->sequence, from);
  }
}

void FaultFinder::before_backward(const autograd::Node&) { touched_.push_back(none); }

void FaultFinder::after_backward(const autograd::Node& node, std::span<const Tensor> dy) {
  const int inside = touched_.back();
  touched_.pop_back();
  int from = none;
  for (size_t i = 0; i < dy.size(); ++i) {
    const auto bad = first_bad(dy[i]);
    if (!bad) continue;
    const auto known = of_result_gradient_.find({node.sequence, static_cast<int>(i)});
    const int event = known != of_result_gradient_.end()
                          ? known->second
                          : note({.op = std::string(name(node.op)),
                                  .module = node.module,
                                  .direction = Direction::backward,
                                  .origin = Origin::seed,
                                  .tensor = "gradient of its result " + shape_and_type(dy[i]),
                                  .dtype = dy[i].dtype(),
                                  .bad = *bad,
                                  .largest_input = largest_finite(dy.subspan(i, 1))});
    from = from == none ? event : std::min(from, event);
  }
  // A value that a forward swallowed may come back here: 0 * inf. The forward is to blame.
  const auto seen = of_forward_.find(node.sequence);
  if (from == none && seen != of_forward_.end()) from = seen->second;
  if (from == none && node.opaque) from = inside;
  for (size_t i = 0; i < node.inputs.size(); ++i) from = of_slot(node, i, from, dy);
  touch(from == none ? inside : from);
}

// The gradient of input i after a backward that met `from`; gives `from` or what arose here.
int FaultFinder::of_slot(const autograd::Node& node, size_t i, int from,
                         std::span<const Tensor> dy) {
  const Tensor gradient = gradient_in(node.inputs[i]);
  const auto bad = first_bad(gradient);
  if (!bad) return from;
  const autograd::Meta* meta = node.inputs[i].meta().get();
  const bool leaf = meta->node == nullptr;
  const ResultKey key = leaf ? ResultKey{} : ResultKey{meta->node->sequence, meta->output};
  if (leaf ? of_leaf_gradient_.contains(meta) : of_result_gradient_.contains(key)) return from;
  if (from == none) {
    const std::string parameter = leaf ? parameter_name(meta) : "";
    from = note({.op = std::string(name(node.op)),
                 .module = node.module,
                 .direction = Direction::backward,
                 .origin = Origin::op,
                 .tensor = fmt::format("gradient of {} {}",
                                       parameter.empty() ? fmt::format("input {}", i) : parameter,
                                       shape_and_type(gradient)),
                 .dtype = gradient.dtype(),
                 .bad = *bad,
                 .largest_input = largest_finite(dy)});
  }
  leaf ? of_leaf_gradient_[meta] = from : of_result_gradient_[key] = from;
  return from;
}

const Finding* FaultFinder::origin(const Tensor& x) const {
  if (!first_bad(x)) return nullptr;
  const auto found = of_storage_.find(x.storage().get());
  return found == of_storage_.end() ? nullptr : &events_[static_cast<size_t>(found->second)];
}

const Finding* FaultFinder::gradient_origin() const {
  int first = none;
  for (const auto& [meta, event] : of_leaf_gradient_)
    first = first == none ? event : std::min(first, event);
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
    const std::pair<const char*, Tensor> parts[] = {{"gradient of ", updated[i].grad()},
                                                    {"first moment of ", part("first")},
                                                    {"second moment of ", part("second")},
                                                    {"master of ", part("master")},
                                                    {"", updated[i]}};
    for (const auto& [what, tensor] : parts) {
      const auto bad = first_bad(tensor);
      if (!bad) continue;
      const bool given = tensor.same_as(updated[i].grad());
      return Finding{.op = std::string(optimizer.name()),
                     .module = dot == std::string::npos ? "" : parameter.substr(0, dot),
                     .direction = given ? Direction::backward : Direction::optimizer,
                     .origin = given ? Origin::seed : Origin::update,
                     .tensor = fmt::format("{}{} {}", what, parameter, shape_and_type(tensor)),
                     .dtype = tensor.dtype(),
                     .bad = *bad,
                     .largest_input = largest_finite(std::vector<Tensor>{updated[i].grad()}),
                     .scale = scale};
    }
  }
  return {};
}

}  // namespace binade::lab
