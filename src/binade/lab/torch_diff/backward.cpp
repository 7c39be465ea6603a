#include "binade/lab/torch_diff/backward.h"

#include <algorithm>
#include <set>

namespace binade::lab {
namespace {

// The gradient of this sum is that of its later uses; torch's sum has that of the norm, too.
bool is_partial(const ObservedOp& op, size_t result) {
  const bool is_sum = op.op == Op::residual_layer_norm || op.op == Op::residual_rms_norm;
  return is_sum && op.results.size() > 1 && result == op.results[0];
}

}  // namespace

BackwardComparison::BackwardComparison(const ForwardInput& input, const ForwardComparison& forward,
                                       const std::vector<PairedWeight>& weights,
                                       const TorchRecording& recording)
    : input_(input), forward_(forward), weights_(weights), recording_(recording) {
  for (size_t i = 0; i < input_.seen.results.size(); ++i) {
    states_.push_back(compare_result(i));
    if (states_.back() == State::agrees) ++results_;
    if (states_.back() == State::noise) ++noise_;
  }
}

BackwardComparison::State BackwardComparison::judge(const Values& x, const Distance& distance,
                                                    const Distance& limit) {
  if (!distance.within(limit)) return State::differs;
  if (is_noise(x, limit)) return State::noise;
  farthest_ = std::max(farthest_, distance.rms / x.rms());
  share_ = std::max(share_, distance.share_of(limit));
  return State::agrees;
}

BackwardComparison::State BackwardComparison::compare_result(size_t result) {
  const ObservedResult& seen = input_.seen.results[result];
  const PairedResult& paired = forward_.pairs()[result];
  if (!seen.gradient.is_defined() || !paired.agrees || is_partial(input_.seen.ops[seen.op], result))
    return State::unknown;
  const Values x = values_of(seen.gradient.value), moved = values_of(seen.gradient.moved);
  State state = State::agrees;
  for (const ResultPart& part : paired.parts) {
    const State one = compare_part(part, part_of(x, part), part_of(moved, part));
    if (one == State::differs) return one;
    state = std::min(state, one);
  }
  return state;
}

BackwardComparison::State BackwardComparison::compare_part(const ResultPart& part, const Values& x,
                                                           const Values& moved) {
  const Distance limit = limit_of(x, moved, input_.roundoff);
  State state = State::unknown;
  // Tensors of the same values may have other uses, and so other gradients.
  for (const Counterpart& one : part.counterparts) {
    const Tensor gradient = recording_.gradient_of(recording_.results()[one.result]);
    if (!gradient.defined()) continue;
    const Distance distance = distance_of(x.elements, reordered(values_of(gradient), one.order));
    state = judge(x, distance, limit);
    if (state != State::differs) return state;
  }
  return state;
}

BackwardComparison::State BackwardComparison::state_of(size_t op) const {
  State state = State::unknown;
  for (const size_t result : input_.seen.ops[op].results) {
    state = std::max(state, states_[result]);
  }
  return state;
}

// The op of a parameter whose backward runs last, and so completes the gradient.
std::optional<size_t> BackwardComparison::op_of(const PairedWeight& weight) const {
  const std::string module = module_of(weight.part.parameter);
  std::optional<size_t> found;
  for (size_t op = 0; op < input_.seen.ops.size(); ++op) {
    const ObservedOp& one = input_.seen.ops[op];
    if (one.module != module || !one.from_tokens || one.backward < 0) continue;
    if (!module.empty() || one.op == Op::linear) {
      if (!found || one.backward > input_.seen.ops[*found].backward) found = op;
    }
  }
  return found;
}

std::optional<TorchDifference> BackwardComparison::compare_weight(const PairedWeight& weight) {
  const RecordedWeight& recorded = recording_.weights().at(weight.torch);
  const auto gradient = input_.seen.parameters.find(weight.part.parameter);
  const Tensor theirs = recording_.gradient_of(recorded);
  if (!theirs.defined() || gradient == input_.seen.parameters.end()) return {};
  const Values x = values_of(torch_part(gradient->second.value, weight, recorded.shape));
  const Values moved = values_of(torch_part(gradient->second.moved, weight, recorded.shape));
  const Values y = values_of(theirs);
  const Distance limit = limit_of(x, moved, input_.roundoff);
  const Distance distance = distance_of(x.elements, y.elements);
  const State state = judge(x, distance, limit);
  if (state != State::differs) {
    ++(state == State::noise ? noise_ : parameters_);
    return {};
  }
  TorchDifference difference{.name = "gradient/" + weight.torch, .torch = weight.torch};
  add_element(difference, x, y, limit, recorded.shape, {});
  return difference;
}

// Of the ops between this one and the loss whose results' gradients differ, the first whose
// gradient the backward has.
std::optional<size_t> BackwardComparison::first_suspect(size_t op) const {
  std::set<size_t> seen, next = {op};
  std::optional<size_t> first;
  while (!next.empty()) {
    const size_t one = *next.begin();
    next.erase(next.begin());
    if (!seen.insert(one).second) continue;
    const State state = state_of(one);
    if (state == State::agrees || state == State::noise) continue;
    const int64_t backward = input_.seen.ops[one].backward;
    const bool is_named = state == State::differs && !moves_only(input_.seen.ops[one].op);
    if (is_named && (!first || backward < input_.seen.ops[*first].backward)) first = one;
    for (const size_t consumer : input_.seen.ops[one].consumers) next.insert(consumer);
  }
  return first;
}

void BackwardComparison::describe_result(TorchDifference& difference, size_t op) {
  for (const size_t result : input_.seen.ops[op].results) {
    if (states_[result] != State::differs) continue;
    const ObservedResult& seen = input_.seen.results[result];
    for (const ResultPart& part : forward_.pairs()[result].parts) {
      const Values x = part_of(values_of(seen.gradient.value), part);
      const Values moved = part_of(values_of(seen.gradient.moved), part);
      if (compare_part(part, x, moved) != State::differs) continue;
      const auto theirs = std::ranges::find_if(part.counterparts, [this](const Counterpart& one) {
        return recording_.gradient_of(recording_.results()[one.result]).defined();
      });
      const RecordedResult& recorded = recording_.results()[theirs->result];
      difference.name = "gradient/" + seen.place;
      difference.part = part.name;
      difference.torch = describe(recorded);
      Values y = values_of(recording_.gradient_of(recorded));
      y.elements = reordered(y, theirs->order);
      add_element(difference, x, y, limit_of(x, moved, input_.roundoff),
                  seen.gradient.value.shape(), part);
      return;
    }
  }
}

// The ops that read what an op computed, rearranged or not.
std::vector<size_t> BackwardComparison::readers_of(size_t op) const {
  std::vector<size_t> readers;
  for (const size_t consumer : input_.seen.ops[op].consumers) {
    if (!moves_only(input_.seen.ops[consumer].op)) {
      readers.push_back(consumer);
      continue;
    }
    const std::vector<size_t> behind = readers_of(consumer);
    readers.insert(readers.end(), behind.begin(), behind.end());
  }
  return readers;
}

void BackwardComparison::name_op(TorchDifference& difference, size_t op) {
  const auto suspect = first_suspect(op);
  std::vector<size_t> makers = {op};
  if (suspect) {
    describe_result(difference, *suspect);
    makers = readers_of(*suspect);
  }
  for (const size_t maker : makers) {
    const ObservedOp& one = input_.seen.ops[maker];
    if (one.backward < 0 || one.results.empty()) continue;
    const std::string& place = input_.seen.results[one.results.back()].place;
    difference.computed_by += (difference.computed_by.empty() ? "" : ", ") + place;
    if (state_of(maker) == State::agrees) difference.after.push_back("gradient/" + place);
  }
}

std::optional<TorchDifference> BackwardComparison::first_difference() {
  std::optional<TorchDifference> first;
  std::optional<size_t> first_op;
  for (const PairedWeight& weight : weights_) {
    auto difference = compare_weight(weight);
    if (!difference) continue;
    const auto op = op_of(weight);
    const bool earlier =
        !first ||
        (op && first_op && input_.seen.ops[*op].backward < input_.seen.ops[*first_op].backward);
    if (!earlier) continue;
    first = std::move(difference);
    first_op = op;
  }
  if (first && first_op) name_op(*first, *first_op);
  return first;
}

}  // namespace binade::lab
