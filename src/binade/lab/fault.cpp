#include "binade/lab/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "binade/autograd/module_path.h"
#include "binade/backend/backend.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/optim/optimizer.h"

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

// "result", or "result 1" if there are several.
std::string numbered(const std::string& noun, size_t i, size_t count) {
  return count > 1 ? fmt::format("{} {}", noun, i) : noun;
}

// The name of a tensor among `named`, by its memory; empty if it has none.
std::string name_in(const NamedTensors& named, const Tensor& x) {
  for (const auto& [name, tensor] : named) {
    if (tensor.defined() && tensor.storage() == x.storage()) return name;
  }
  return "";
}

// Ops that are singular at zero: there they give, or their derivative is, an infinity.
bool is_singular_at_zero(Op op) {
  using enum Op;
  constexpr Op ops[] = {div,   atan2, pow,   addcdiv,          sqrt, rsqrt, reciprocal, log, log2,
                        log10, norm,  cdist, cosine_similarity};
  return std::find(std::begin(ops), std::end(ops), op) != std::end(ops);
}

bool contains_zero(const Tensor& x) {
  if (!x.defined() || !is_compute(x.dtype())) return false;
  const std::vector<double> values = to_vector(x.detach());
  return std::find(values.begin(), values.end(), 0.0) != values.end();
}

// The op, or the user's op it runs in.
std::string current_op(Op op) {
  const std::string_view custom = autograd::custom_op_name();
  return std::string(custom.empty() ? name(op) : custom);
}

// "result", or "result of mul" inside of a user's op.
std::string result_of(Op op) {
  const bool inner = !autograd::custom_op_name().empty() && op != Op::custom;
  return inner ? fmt::format("result of {}", name(op)) : "result";
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

Tensor gradient_in(const autograd::GradSlot& slot) {
  const std::shared_ptr<autograd::AutogradMeta>& meta = slot.meta();
  if (meta == nullptr) return {};
  if (meta->node != nullptr) {
    const auto output = static_cast<size_t>(meta->output);
    return output < meta->node->gradients.size() ? meta->node->gradients[output] : Tensor();
  }
  return meta->holds_gradient ? meta->grad : Tensor();
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
  constexpr const char* origins[] = {"came with the data",        "was in a parameter",
                                     "was in a buffer",           "was caused by the input cast",
                                     "was computed by this op",   "was in the incoming gradient",
                                     "was computed by the update"};
  if (std::isfinite(f.first.value)) {
    return fmt::format("gradients lost to underflow: {} zeros in {}\n  op {}{}, {}; loss scale {}",
                       f.first.count, f.tensor, f.op, f.module.empty() ? "" : " in " + f.module,
                       name(f.direction), scale_text(f.scale));
  }
  std::string text = fmt::format(
      "first non-finite value: {} at {} of {}\n  op {}{}, {}; it {}; {} of its elements {} "
      "non-finite",
      std::abs(f.first.value) == INFINITY ? f.first.value : NAN,  // the sign of a NaN says nothing
      to_string(f.first.index), f.tensor, f.op, f.module.empty() ? "" : " in " + f.module,
      name(f.direction), origins[static_cast<size_t>(f.origin)], f.first.count,
      f.first.count == 1 ? "is" : "are");
  text += fmt::format("\n  largest finite input magnitude: {:.6g}; loss scale {}", f.largest_input,
                      scale_text(f.scale));
  return text;
}

bool is_narrow_overflow(const Finding& f) {
  const bool computed = f.origin == Origin::op || f.origin == Origin::cast;
  return computed && f.direction == Direction::forward && f.dtype != DType::f32 &&
         f.dtype != DType::f64 && std::isinf(f.first.value) && !f.zero_input;
}

FaultFinder::FaultFinder(NamedTensors parameters, double scale, NamedTensors buffers)
    : parameters_(std::move(parameters)), buffers_(std::move(buffers)), scale_(scale) {}

int FaultFinder::earlier(int a, int b) const {
  if (a == none || b == none) return std::max(a, b);
  return std::min(a, b);
}

int FaultFinder::likelier(int a, int b) const {
  if (a == none || b == none) return std::max(a, b);
  const bool a_masks = events_[static_cast<size_t>(a)].is_negative_infinity,
             b_masks = events_[static_cast<size_t>(b)].is_negative_infinity;
  if (a_masks != b_masks) return a_masks ? b : a;
  return std::min(a, b);
}

int FaultFinder::add_event(Finding finding, bool is_negative_infinity) {
  finding.scale = scale_;
  events_.push_back({std::move(finding), is_negative_infinity});
  return static_cast<int>(events_.size()) - 1;
}

void FaultFinder::attribute_to_backward(int event) {
  if (!running_backwards_.empty())
    running_backwards_.back() = earlier(running_backwards_.back(), event);
}

std::string FaultFinder::parameter_name(const autograd::AutogradMeta* meta) const {
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.autograd_meta().get() == meta) return name;
  }
  return "";
}

const std::pair<std::string, Tensor>* FaultFinder::bad_buffer_of(const std::string& module) const {
  for (const auto& buffer : buffers_) {
    const std::string& name = buffer.first;
    const bool own =
        name.starts_with(module + ".") && (name.find('.', module.size() + 1) == std::string::npos ||
                                           name.starts_with(module + ".scales."));
    if (!own || !first_non_finite(buffer.second)) continue;
    // A mask of -inf is a legal buffer.
    for (const double value : to_vector(buffer.second.detach())) {
      if (!std::isfinite(value) && !(value < 0)) return &buffer;
    }
  }
  return nullptr;
}

FaultFinder::Traced FaultFinder::traced(const Tensor& x) const {
  Traced result{.tensor = &x, .values = {}, .events = {}};
  if (!first_non_finite(x)) return result;
  result.values = to_vector(x.detach());
  result.events = labels_.of(x);
  return result;
}

void FaultFinder::add_events(Traced& x, const Finding& finding) {
  for (const bool masks : {false, true}) {
    Finding one = finding;
    one.first.count = 0;
    std::vector<int> added(x.values.size(), none);
    const int event = static_cast<int>(events_.size());
    for (size_t i = 0; i < x.values.size(); ++i) {
      const double value = x.values[i];
      if (std::isfinite(value) || x.events[i] != none || (std::isinf(value) && value < 0) != masks)
        continue;
      if (one.first.count++ == 0) {
        one.first.index = index_of(static_cast<int64_t>(i), x.tensor->shape());
        one.first.value = value;
      }
      added[i] = event;
    }
    if (one.first.count == 0) continue;
    add_event(one, masks);
    for (size_t i = 0; i < added.size(); ++i) x.events[i] = std::max(x.events[i], added[i]);
    labels_.set(*x.tensor, added);
  }
}

// Elements of an input that no observed op computed come with the data, a parameter or a buffer.
FaultFinder::Traced FaultFinder::trace_input(Op op, size_t i, const Tensor& input) {
  Traced result = traced(input);
  if (result.finite()) return result;
  const std::string parameter = name_in(parameters_, input), buffer = name_in(buffers_, input);
  const std::string& known = parameter.empty() ? buffer : parameter;
  add_events(result,
             {.op = current_op(op),
              .module = autograd::module_path(),
              .direction = parameter.empty() ? Direction::forward : Direction::optimizer,
              .origin = !parameter.empty() ? Origin::parameter
                        : !buffer.empty()  ? Origin::buffer
                                           : Origin::data,
              .tensor = fmt::format("{} {}", known.empty() ? fmt::format("input {}", i) : known,
                                    shape_and_type(input)),
              .dtype = input.dtype(),
              .largest_input = largest_finite({&input, 1})});
  return result;
}

FaultFinder::Traced FaultFinder::trace_cast(Op op, size_t i, const Traced& input,
                                            const Tensor& cast) {
  Traced result = traced(cast);
  if (result.finite()) return result;
  if (!input.finite()) {
    for (size_t e = 0; e < result.events.size(); ++e) {
      if (result.events[e] == none && !std::isfinite(result.values[e]))
        result.events[e] = input.events[e];
    }
  }
  const std::string named = name_in(parameters_, *input.tensor);
  add_events(result,
             {.op = current_op(op),
              .module = autograd::module_path(),
              .origin = Origin::cast,
              .tensor = fmt::format("{} {}",
                                    named.empty() ? fmt::format("cast input {}", i)
                                                  : fmt::format("cast input {}, {},", i, named),
                                    shape_and_type(cast)),
              .dtype = cast.dtype(),
              .largest_input = largest_finite({input.tensor, 1})});
  labels_.set(cast, result.events);
  return result;
}

int FaultFinder::event_behind(Op op, std::span<const Traced> operands, const Traced& output,
                              size_t flat) const {
  const Dependency dependency = dependency_of(op);
  const double value = output.values[flat];
  int best = none, same_kind = none;
  const auto consider = [&](const Traced& operand, ElementRange range) {
    for (int64_t e = range.begin; e < range.end; ++e) {
      const auto at = static_cast<size_t>(e);
      if (operand.events[at] == none || std::isfinite(operand.values[at])) continue;
      best = likelier(best, operand.events[at]);
      const double source = operand.values[at];
      if (std::isnan(source) == std::isnan(value) && !(source > value) && !(source < value))
        same_kind = likelier(same_kind, operand.events[at]);
    }
  };
  for (size_t k = 0; k < operands.size(); ++k) {
    const Traced& operand = operands[k];
    if (operand.tensor == nullptr || operand.finite()) continue;
    consider(operand, elements_behind(dependency, k == 0, operand.tensor->shape(),
                                      output.tensor->shape(), static_cast<int64_t>(flat)));
  }
  if (dependency == Dependency::copy && same_kind != none) return same_kind;
  // A softmax may run along another axis than the last.
  const bool along_some_axis = op == Op::softmax || op == Op::log_softmax;
  if (best == none && along_some_axis && !operands.empty() && !operands[0].finite())
    consider(operands[0], {0, static_cast<int64_t>(operands[0].values.size())});
  return best;
}

int FaultFinder::masked_row(Op op, const Traced& input, const Shape& result, size_t flat) {
  const ElementRange row = elements_behind(Dependency::row, true, input.tensor->shape(), result,
                                           static_cast<int64_t>(flat));
  for (int64_t e = row.begin; e < row.end; ++e) {
    const double value = input.values[static_cast<size_t>(e)];
    if (!(std::isinf(value) && value < 0)) return none;
  }
  Shape index = index_of(static_cast<int64_t>(flat), result);
  Shape of_row = Shape::filled(std::max(index.rank() - 1, 0), 0);
  for (int axis = 0; axis < of_row.rank(); ++axis) of_row[axis] = index[axis];
  return add_event({.op = current_op(op),
                    .module = autograd::module_path(),
                    .origin = Origin::data,
                    .tensor = fmt::format("row {} of input 0 {}, which is masked whole",
                                          to_string(of_row), shape_and_type(*input.tensor)),
                    .dtype = input.tensor->dtype(),
                    .first = {.index = index,
                              .value = -std::numeric_limits<double>::infinity(),
                              .count = row.end - row.begin}});
}

void FaultFinder::trace_output(Op op, size_t i, std::span<const Traced> operands,
                               std::span<const Tensor> outputs) {
  Traced output = traced(outputs[i]);
  if (output.finite()) return;
  const bool is_softmax = op == Op::softmax || op == Op::log_softmax;
  std::unordered_map<int64_t, int> masked_rows;
  std::vector<int> found(output.values.size(), none);
  bool own = false;
  for (size_t e = 0; e < output.values.size(); ++e) {
    if (std::isfinite(output.values[e]) || output.events[e] != none) continue;
    int event = event_behind(op, operands, output, e);
    if (is_softmax && event != none && std::isnan(output.values[e])) {
      const Event& behind = events_[static_cast<size_t>(event)];
      // masked_fill() has it from the program.
      const bool given = behind.finding.origin == Origin::data ||
                         behind.finding.origin == Origin::buffer ||
                         behind.finding.op == name(Op::masked_fill);
      const int64_t row = static_cast<int64_t>(e) / std::max<int64_t>(outputs[i].size(-1), 1);
      if (behind.is_negative_infinity && given) {
        const auto known = masked_rows.find(row);
        const int whole = known != masked_rows.end()
                              ? known->second
                              : masked_row(op, operands[0], outputs[i].shape(), e);
        masked_rows[row] = whole;
        if (whole != none) event = whole;
      }
    }
    found[e] = event;
    own |= event == none;
  }
  labels_.set(outputs[i], found);
  if (!own) return;
  for (size_t e = 0; e < found.size(); ++e) output.events[e] = std::max(output.events[e], found[e]);
  std::vector<Tensor> read;
  bool zero = false;
  for (const Traced& operand : operands) {
    if (operand.tensor == nullptr) continue;
    read.push_back(*operand.tensor);
    zero |= is_singular_at_zero(op) && contains_zero(*operand.tensor);
  }
  Finding finding{.op = current_op(op),
                  .module = autograd::module_path(),
                  .tensor = fmt::format("{} {}", numbered(result_of(op), i, outputs.size()),
                                        shape_and_type(outputs[i])),
                  .dtype = outputs[i].dtype(),
                  .largest_input = largest_finite(read),
                  .zero_input = zero};
  if (const auto* buffer = bad_buffer_of(finding.module)) {
    finding.origin = Origin::buffer;
    finding.tensor = fmt::format("{} {}", buffer->first, shape_and_type(buffer->second));
  }
  add_events(output, finding);
}

void FaultFinder::keep_facts(Op op, std::span<const Traced> operands,
                             std::span<const Tensor> outputs) {
  const auto& meta = outputs[0].autograd_meta();
  if (meta == nullptr || meta->node == nullptr) return;
  ForwardFacts facts{.shape = outputs[0].shape(), .events = {}, .custom_name = {}};
  if (op == Op::custom) facts.custom_name = current_op(op);
  const Traced result = traced(outputs[0]);
  const bool by_element = dependency_of(op) == Dependency::element;
  const auto note = [&](const Traced& x) {
    if (x.tensor == nullptr || x.finite()) return;
    for (const int event : x.events) {
      if (event != none && !events_[static_cast<size_t>(event)].is_negative_infinity)
        facts.event = likelier(facts.event, event);
    }
    if (!by_element) return;
    facts.events.resize(static_cast<size_t>(outputs[0].numel()), none);
    for (size_t e = 0; e < facts.events.size(); ++e) {
      const ElementRange at = elements_behind(Dependency::element, false, x.tensor->shape(),
                                              facts.shape, static_cast<int64_t>(e));
      for (int64_t k = at.begin; k < at.end; ++k)
        facts.events[e] = likelier(facts.events[e], x.events[static_cast<size_t>(k)]);
    }
  };
  note(result);
  for (const Traced& operand : operands) note(operand);
  if (is_singular_at_zero(op)) {
    for (const Traced& operand : operands)
      facts.zero_input |= operand.tensor != nullptr && contains_zero(*operand.tensor);
  }
  if (facts.event == none && facts.events.empty() && !facts.zero_input && facts.custom_name.empty())
    return;
  facts_.try_emplace(meta->node->sequence, std::move(facts));
}

void FaultFinder::forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
                          std::span<const Tensor> outputs) {
  std::vector<Traced> operands;
  int cause = none;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      operands.push_back({});
      continue;
    }
    Traced input = trace_input(op, i, inputs[i]);
    const bool converted = i < compute.size() && compute[i].defined() &&
                           !compute[i].same_as(inputs[i]) &&
                           compute[i].numel() == inputs[i].numel();
    operands.push_back(converted ? trace_cast(op, i, input, compute[i]) : std::move(input));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    trace_output(op, i, operands, outputs);
    for (const int event : traced(outputs[i]).events) cause = likelier(cause, event);
  }
  attribute_to_backward(cause);
  if (!outputs.empty() && outputs[0].defined()) keep_facts(op, operands, outputs);
}

void FaultFinder::before_backward(const autograd::Node&) { running_backwards_.push_back(none); }

void FaultFinder::after_backward(const autograd::Node& node, std::span<const Tensor> dy) {
  const int inside = running_backwards_.back();
  running_backwards_.pop_back();
  int cause = none;
  for (size_t i = 0; i < dy.size(); ++i) cause = earlier(cause, trace_result_gradient(node, i, dy));
  if (cause == none && node.opaque) cause = inside;
  for (size_t i = 0; i < node.inputs.size(); ++i) cause = trace_input_gradient(node, i, cause, dy);
  attribute_to_backward(cause == none ? inside : cause);
}

std::string FaultFinder::op_name(const autograd::Node& node) const {
  const auto facts = facts_.find(node.sequence);
  return facts == facts_.end() || facts->second.custom_name.empty() ? std::string(name(node.op))
                                                                    : facts->second.custom_name;
}

// A non-finite value that the forward masked may reappear as 0 * inf: the forward is the cause.
int FaultFinder::forward_cause(const autograd::Node& node, const Tensor& gradient) const {
  const auto found = facts_.find(node.sequence);
  if (found == facts_.end()) return none;
  const ForwardFacts& facts = found->second;
  if (facts.events.empty() || gradient.shape() != facts.shape) return facts.event;
  const std::vector<double> values = to_vector(gradient.detach());
  int cause = none;
  for (size_t e = 0; e < values.size(); ++e) {
    if (!std::isfinite(values[e])) cause = likelier(cause, facts.events[e]);
  }
  return cause;
}

// The event behind a non-finite gradient dy[i]; a new one if no observed backward computed it.
int FaultFinder::trace_result_gradient(const autograd::Node& node, size_t i,
                                       std::span<const Tensor> dy) {
  const auto bad = first_non_finite(dy[i]);
  if (!bad) return none;
  const auto known = by_result_gradient_.find({node.sequence, static_cast<int>(i)});
  if (known != by_result_gradient_.end()) return known->second;
  return add_event({.op = op_name(node),
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
  if (cause == none) cause = forward_cause(node, gradient);
  if (cause == none) {
    const std::string parameter = leaf ? parameter_name(meta) : "";
    const auto facts = facts_.find(node.sequence);
    cause =
        add_event({.op = op_name(node),
                   .module = node.module,
                   .direction = Direction::backward,
                   .origin = Origin::op,
                   .tensor = fmt::format("gradient of {} {}",
                                         parameter.empty() ? fmt::format("input {}", i) : parameter,
                                         shape_and_type(gradient)),
                   .dtype = gradient.dtype(),
                   .first = *bad,
                   .largest_input = largest_finite(dy),
                   .zero_input = facts != facts_.end() && facts->second.zero_input});
  }
  (leaf ? by_leaf_gradient_[meta] : by_result_gradient_[key]) = cause;
  return cause;
}

const Finding* FaultFinder::origin(const Tensor& x) const {
  int cause = none;
  for (const int event : traced(x).events) cause = likelier(cause, event);
  return cause == none ? nullptr : &events_[static_cast<size_t>(cause)].finding;
}

const Finding* FaultFinder::first_overflow() const {
  for (const Event& event : events_) {
    if (is_narrow_overflow(event.finding)) return &event.finding;
  }
  return nullptr;
}

const Finding* FaultFinder::gradient_origin() const {
  int first = none;
  for (const auto& [meta, event] : by_leaf_gradient_) first = earlier(first, event);
  return first == none ? nullptr : &events_[static_cast<size_t>(first)].finding;
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
