#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/error.h"
#include "binade/lab/examine.h"
#include "binade/lab/fault.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"

namespace binade::lab {
namespace {

// Training hardly changes while less than this fraction of the gradient is lost.
constexpr double harmless = 0.1;
// A cure must lose less than this.
constexpr double cured = 0.01;

// The zeros among the elements of a gradient.
struct Zeros {
  std::string op, module, tensor;
  DType dtype = DType::f32;
  int64_t zeros = 0, elements = 0;

  double fraction() const {
    return elements == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(elements);
  }
};

Zeros zeros_of(const Tensor& gradient) {
  Zeros result;
  if (!gradient.defined() || !is_compute(gradient.dtype())) return result;
  const std::vector<double> values = to_vector(gradient.detach());
  result.dtype = gradient.dtype();
  result.elements = std::ssize(values);
  result.zeros = std::count(values.begin(), values.end(), 0.0);
  return result;
}

// Counts the zeros in the gradient of every input of every backward.
class ZeroCounter : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor>, std::span<const Tensor>,
               std::span<const Tensor> outputs) override {
    if (op != Op::custom || outputs.empty()) return;
    const auto& meta = outputs[0].autograd_meta();
    if (meta != nullptr && meta->node != nullptr)
      custom_names_[meta->node->sequence] = autograd::custom_op_name();
  }
  void after_backward(const autograd::Node& node, std::span<const Tensor>) override {
    if (node.opaque) return;  // the ops inside it are counted
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor gradient = gradient_in(node.inputs[i]);
      Zeros zeros = zeros_of(gradient);
      const auto custom = custom_names_.find(node.sequence);
      zeros.op = custom == custom_names_.end() ? std::string(name(node.op)) : custom->second;
      zeros.module = node.module;
      if (gradient.defined())
        zeros.tensor = fmt::format("gradient of input {} {} {}", i, to_string(gradient.shape()),
                                   name(gradient.dtype()));
      steps.push_back(std::move(zeros));
    }
  }

  std::vector<Zeros> steps;

 private:
  std::unordered_map<uint64_t, std::string> custom_names_;
};

struct Profile {
  std::vector<Zeros> steps, parameters;
  bool finite = true;
};

Profile profile(const DiagnosisInput& input, const Replay& replay, double scale) {
  const NamedTensors parameters = input.parameters(replay);
  for (const auto& [name, parameter] : parameters) parameter.zero_grad();
  ZeroCounter counter;
  Profile result;
  {
    const autograd::OpObserverScope scope(&counter);
    Tensor loss = input.loss(replay);
    if (!loss.requires_grad()) return result;
    const amp::Autocast off(amp::disabled_autocast());
    if (scale != 1) loss = loss * scale;
    loss.backward();
  }
  for (const auto& [name, parameter] : parameters) {
    Zeros zeros = zeros_of(parameter.grad());
    zeros.tensor = name;
    result.finite &= !first_non_finite(parameter.grad());
    result.parameters.push_back(std::move(zeros));
    parameter.zero_grad();
  }
  result.steps = std::move(counter.steps);
  return result;
}

// The fraction of the elements that are non-zero in `exact` and zero in `run`.
double flushed(const Zeros& run, const Zeros& exact) {
  const int64_t nonzero = exact.elements - exact.zeros;
  if (nonzero <= 0 || run.elements != exact.elements) return 0;
  return std::max(0.0, static_cast<double>(run.zeros - exact.zeros) / static_cast<double>(nonzero));
}

double flushed(const Profile& run, const Profile& exact) {
  Zeros in_run, in_exact;
  for (size_t i = 0; i < run.parameters.size() && i < exact.parameters.size(); ++i) {
    if (run.parameters[i].elements != exact.parameters[i].elements) continue;
    in_run.zeros += run.parameters[i].zeros;
    in_exact.zeros += exact.parameters[i].zeros;
    in_run.elements += run.parameters[i].elements;
    in_exact.elements += exact.parameters[i].elements;
  }
  return flushed(in_run, in_exact);
}

// The first backward whose gradients are lost: the first that has zeros where f32 has none.
Finding first_loss(const Profile& run, const Profile& exact, double scale) {
  const Zeros* first = nullptr;
  for (size_t i = 0; i < run.steps.size() && first == nullptr; ++i) {
    const double expected = i < exact.steps.size() && run.steps.size() == exact.steps.size()
                                ? exact.steps[i].fraction()
                                : 0;
    if (run.steps[i].fraction() > expected + harmless) first = &run.steps[i];
  }
  Finding finding{.op = first == nullptr ? "backward" : first->op,
                  .module = first == nullptr ? "" : first->module,
                  .direction = Direction::backward,
                  .origin = Origin::op,
                  .tensor = first == nullptr ? "gradients of the parameters" : first->tensor,
                  .dtype = first == nullptr ? DType::f32 : first->dtype,
                  .first = {.index = {}, .value = 0, .count = first == nullptr ? 0 : first->zeros},
                  .scale = scale};
  return finding;
}

// The number of other batches on which hardly anything is lost with a cure.
void count_batches(const DiagnosisInput& input, Cure& cure) {
  const Replay replay{.autocast_type = cure.autocast_type, .kept = cure.kept};
  const double scale = cure.autocast_type ? 1 : cure.scale.value_or(input.scale);
  cure.held = cure.batches = 1;
  std::vector<Profile> exact;  // first, since each kind of replay may need a copy of the model
  for (size_t i = 0; i < input.others.size(); ++i)
    exact.push_back(profile(with_other_batch(input, i), {.f32 = true}, 1));
  for (size_t i = 0; i < exact.size(); ++i) {
    const Profile tried = profile(with_other_batch(input, i), replay, scale);
    ++cure.batches;
    cure.held += tried.finite && flushed(tried, exact[i]) < cured ? 1 : 0;
  }
}

// The scale at which a scaler settles, if hardly anything is lost there, else bf16.
std::optional<Cure> cure_of(const DiagnosisInput& input, const Profile& exact) {
  constexpr double above_all = 0x1p31;  // f16 gradients overflow long before
  if (const double largest = largest_scale(input, {}, above_all); largest > input.scale) {
    const Cure cure = scale_cure(input, largest);
    if (flushed(profile(input, {}, *cure.scale), exact) < cured) return cure;
  }
  const Profile tried = profile(input, {.autocast_type = DType::bf16}, 1);
  if (tried.finite && flushed(tried, exact) < cured) return Cure{.autocast_type = DType::bf16};
  return {};
}

// Finds the cure, and whether the cause is an overflow that something is divided by: if gradients
// are there with its op in f32, or if no loss scale brings them back and f32 has no overflow.
void explain(const DiagnosisInput& input, const Profile& exact, Underflow& result) {
  const auto overflow = find_overflow(input, {});
  if (overflow) {
    const KeptInF32 one{.module = overflow->module, .op = find_op(overflow->op)};
    const Profile tried = profile(input, {.kept = {one}}, input.scale);
    if (tried.finite && flushed(tried, exact) < cured) {
      result.finding = *overflow;
      result.cure = Cure{.kept = {one}, .quantized = input.quantized};
      return;
    }
  }
  result.cure = cure_of(input, exact);
  const bool needs_scale = result.cure && result.cure->scale;
  if (overflow && !needs_scale && !find_overflow(input, {.f32 = true})) result.finding = *overflow;
}

}  // namespace

std::optional<Underflow> find_underflow(const DiagnosisInput& input) {
  try {
    const Profile run = profile(input, {}, input.scale);
    const bool has_16_bits = std::any_of(run.steps.begin(), run.steps.end(), [](const Zeros& one) {
      return one.elements > 0 && one.dtype != DType::f32 && one.dtype != DType::f64;
    });
    const bool lost = std::any_of(run.parameters.begin(), run.parameters.end(),
                                  [](const Zeros& one) { return one.fraction() > harmless; });
    // Where no gradient is of 16 bits, a value may be that it is divided by.
    if (!lost || !(has_16_bits || find_overflow(input, {}))) return {};
    const Profile exact = profile(input, {.f32 = true}, 1);
    Underflow result{.flushed = flushed(run, exact)};
    if (!(result.flushed > harmless)) return {};
    result.finding = first_loss(run, exact, input.scale);
    for (size_t i = 0; i < run.parameters.size(); ++i) {
      const double lost_here = flushed(run.parameters[i], exact.parameters[i]);
      if (lost_here > harmless) result.parameters.emplace_back(run.parameters[i].tensor, lost_here);
    }
    std::stable_sort(result.parameters.begin(), result.parameters.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    explain(input, exact, result);
    if (result.cure) count_batches(input, *result.cure);
    return result;
  } catch (const Error&) {  // the computation cannot run in f32
    return {};
  }
}

}  // namespace binade::lab
