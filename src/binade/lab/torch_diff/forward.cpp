#include "binade/lab/torch_diff/forward.h"

#include <algorithm>
#include <set>

namespace binade::lab {
namespace {

ResultPart whole_of(int64_t width) {
  return {.name = "", .width = width, .begin = 0, .end = width};
}

}  // namespace

void add_element(TorchDifference& difference, const Values& x, const Values& y,
                 const Distance& limit, const Shape& shape, const ResultPart& part) {
  const double norm = std::max({x.rms(), y.rms(), 1e-300});
  const Distance distance = distance_of(x.elements, y.elements);
  difference.relative = distance.rms / norm;
  difference.explained = limit.rms / norm;
  // If no element alone is too far, the one that is farthest.
  int64_t first = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double one = distance_of(x.elements[at], y.elements[at]);
    if (one > limit.largest || one >= distance.largest) {
      first = i;
      break;
    }
  }
  difference.value = x.elements[static_cast<size_t>(first)];
  difference.torch_value = y.elements[static_cast<size_t>(first)];
  const int64_t columns = part.end - part.begin;
  if (!part.name.empty()) first = first / columns * part.width + part.begin + first % columns;
  difference.index = element_index(shape, first);
}

ForwardComparison::ForwardComparison(const ForwardInput& input, RecordedValues& recorded)
    : input_(input), recorded_(recorded) {
  for (size_t op = 0; op < input_.seen.ops.size(); ++op) {
    if (input_.seen.ops[op].from_tokens) last_of_module_[input_.seen.ops[op].module] = op;
  }
  pairs_.resize(input_.seen.results.size());
  for (size_t op = 0; op < input_.seen.ops.size() && !anchor_; ++op) {
    for (const size_t result : input_.seen.ops[op].results)
      pairs_[result] = pair(input_.seen.results[result]);
    if (is_anchor(op) && !agrees(op)) anchor_ = op;
  }
}

PairedResult ForwardComparison::pair(const ObservedResult& result) {
  const ObservedOp& op = input_.seen.ops[result.op];
  PairedResult paired;
  // Quantized data, indices and what parameters alone decide have no counterpart.
  paired.agrees = !op.from_tokens || !is_compute(result.value.value.dtype());
  if (paired.agrees) return paired;
  const Values x = values_of(result.value.value), moved = values_of(result.value.moved);
  const int64_t width = x.count() / input_.positions;
  paired.parts = {whole_of(width)};
  paired.agrees = pair_part(paired.parts[0], x, moved, paired);
  if (paired.agrees || width == 0) return paired;
  std::vector<ResultPart> parts = packed_parts(input_.config, op.module, width);
  if (parts.empty()) return paired;
  bool all = true;
  for (ResultPart& part : parts) all &= pair_part(part, x, moved, paired);
  paired.parts = std::move(parts);
  paired.agrees = all;
  return paired;
}

bool ForwardComparison::pair_part(ResultPart& part, const Values& whole, const Values& moved,
                                  PairedResult& paired) {
  const Values x = part_of(whole, part);
  const Distance limit = limit_of(x, part_of(moved, part), input_.roundoff);
  part.counterparts = recorded_.find(x, limit, input_.roundoff, newest_counterpart_);
  if (part.counterparts.empty()) return false;
  newest_counterpart_ = static_cast<int64_t>(part.counterparts[0].result);
  const Distance distance = part.counterparts[0].distance;
  paired.share = std::max(paired.share, distance.share_of(limit));
  paired.is_noise |= is_noise(x, limit);
  if (x.norm > 0) paired.relative = std::max(paired.relative, distance.rms / x.rms());
  return true;
}

bool ForwardComparison::is_anchor(size_t op) const {
  const ObservedOp& one = input_.seen.ops[op];
  if (!one.from_tokens || one.results.empty()) return false;
  if (one.op == Op::cross_entropy) return recorded_.has_size(1);
  if (one.module.empty()) return one.op == Op::linear;
  return input_.modules.contains(one.module) && last_of_module_.at(one.module) == op;
}

bool ForwardComparison::agrees(size_t op) const {
  const ObservedOp& one = input_.seen.ops[op];
  if (!one.from_tokens || one.results.empty()) return true;
  // The sum that a norm with a residual returns first may be nowhere in torch.
  if (is_anchor(op)) return pairs_[one.results.back()].agrees;
  return std::ranges::all_of(one.results, [this](size_t i) { return pairs_[i].agrees; });
}

// The ops that compute something, do not agree, and lead to the anchor through such ops alone.
std::vector<size_t> ForwardComparison::suspects(size_t anchor) const {
  std::set<size_t> seen, next = {anchor};
  while (!next.empty()) {
    const size_t op = *next.begin();
    next.erase(next.begin());
    if (!seen.insert(op).second) continue;
    for (const size_t input : input_.seen.ops[op].inputs) {
      if (!agrees(input)) next.insert(input);
    }
  }
  std::erase_if(seen, [this](size_t op) { return moves_only(input_.seen.ops[op].op); });
  return {seen.begin(), seen.end()};
}

std::optional<TorchDifference> ForwardComparison::first_difference() {
  if (!anchor_) return {};
  std::vector<std::string> unseen;
  for (const size_t suspect : suspects(*anchor_)) {
    TorchDifference difference = describe_difference(suspect);
    if (!difference.torch.empty() || suspect == *anchor_) {
      difference.unseen = std::move(unseen);
      return difference;
    }
    unseen.push_back(difference.name);
  }
  return {};
}

// From the first counterpart of what an op reads to what the next module with parameters returns.
Region ForwardComparison::region_of(size_t op, const std::set<size_t>& sources) const {
  Region region{.after = sources.empty() ? -1 : static_cast<int64_t>(*sources.begin())};
  for (size_t later = op + 1; later < input_.seen.ops.size() && !region.end; ++later) {
    const auto modules = input_.modules.find(input_.seen.ops[later].module);
    if (modules == input_.modules.end() ||
        input_.seen.ops[later].module == input_.seen.ops[op].module)
      continue;
    for (const size_t output : recorded_.outputs_of(modules->second[0])) {
      if (static_cast<int64_t>(output) > region.after) region.end = output;
    }
  }
  return region;
}

std::set<size_t> ForwardComparison::counterparts_of_inputs(size_t op,
                                                           const std::string& part) const {
  std::set<size_t> of_part, all;
  for (const size_t input : input_.seen.ops[op].inputs) {
    for (const size_t result : input_.seen.ops[input].results) {
      for (const ResultPart& one : pairs_[result].parts) {
        for (const Counterpart& counterpart : one.counterparts) {
          all.insert(counterpart.result);
          if (one.name == part) of_part.insert(counterpart.result);
        }
      }
    }
  }
  return of_part.empty() ? all : of_part;
}

std::optional<Counterpart> ForwardComparison::counterpart_by_name(size_t result, size_t number,
                                                                  const Values& x) {
  const ObservedOp& op = input_.seen.ops[input_.seen.results[result].op];
  const auto found = input_.modules.find(op.module);
  if (found == input_.modules.end() || !is_anchor(input_.seen.results[result].op)) return {};
  const std::vector<std::string>& modules = found->second;
  // A norm with a residual returns what it normalizes, too.
  if (result != op.results.back()) return recorded_.input_of(modules[0], x);
  const bool is_apart = modules.size() == pairs_[result].parts.size();
  return is_apart ? recorded_.output_of(modules[number], x) : std::nullopt;
}

// What agrees with a result, and what modules with parameters return, but for the op's own.
std::set<size_t> ForwardComparison::counterparts_of_others(size_t op) const {
  std::set<size_t> taken;
  for (const PairedResult& paired : pairs_) {
    for (const ResultPart& one : paired.parts) {
      for (const Counterpart& counterpart : one.counterparts) taken.insert(counterpart.result);
    }
  }
  for (const auto& [module, names] : input_.modules) {
    if (module == input_.seen.ops[op].module) continue;
    for (const std::string& name : names) {
      const std::vector<size_t> outputs = recorded_.outputs_of(name);
      taken.insert(outputs.begin(), outputs.end());
    }
  }
  return taken;
}

std::optional<Counterpart> ForwardComparison::likely_counterpart(size_t result, size_t number,
                                                                 const Values& x) {
  const size_t op = input_.seen.results[result].op;
  const auto named = counterpart_by_name(result, number, x);
  if (named && result != input_.seen.ops[op].results.back()) return named;
  const std::set<size_t> sources = counterparts_of_inputs(op, pairs_[result].parts[number].name);
  const auto instead =
      recorded_.instead_of(x, sources, region_of(op, sources), counterparts_of_others(op));
  if (!named || !instead) return named ? named : instead;
  // The activation may be part of a linear layer here and not there.
  if (input_.seen.ops[op].op != Op::linear) return named;
  const bool is_nearer =
      recorded_.relative_distance(x, *instead) < recorded_.relative_distance(x, *named);
  return is_nearer ? instead : named;
}

// The names of results that an op reads, or that are rearranged for it.
std::vector<std::string> ForwardComparison::inputs_of(size_t op) const {
  std::vector<std::string> names;
  for (const size_t input : input_.seen.ops[op].inputs) {
    const ObservedOp& one = input_.seen.ops[input];
    if (moves_only(one.op)) {
      const std::vector<std::string> before = inputs_of(input);
      names.insert(names.end(), before.begin(), before.end());
      continue;
    }
    for (const size_t result : one.results) {
      if (pairs_[result].agrees) names.push_back("activation/" + input_.seen.results[result].place);
    }
  }
  return names;
}

TorchDifference ForwardComparison::describe_difference(size_t op) {
  const ObservedOp& one = input_.seen.ops[op];
  const auto differs = [this](size_t i) { return !pairs_[i].agrees; };
  const auto found = std::ranges::find_if(one.results, differs);
  const size_t result = found == one.results.end() ? one.results.back() : *found;
  const ObservedResult& seen = input_.seen.results[result];
  const std::vector<ResultPart>& parts = pairs_[result].parts;
  size_t number = 0;
  while (number + 1 < parts.size() && !parts[number].counterparts.empty()) ++number;
  const ResultPart& part = parts[number];
  TorchDifference difference{
      .name = "activation/" + seen.place, .part = part.name, .after = inputs_of(op)};
  const Values x = part_of(values_of(seen.value.value), part);
  const Distance limit = limit_of(x, part_of(values_of(seen.value.moved), part), input_.roundoff);
  const auto theirs = likely_counterpart(result, number, x);
  if (!theirs) return difference;
  difference.torch = describe(recorded_.recording().results()[theirs->result]);
  Values y = recorded_.load(theirs->result);
  y.elements = reordered(y, theirs->order);
  add_element(difference, x, y, limit, seen.value.value.shape(), part);
  return difference;
}

}  // namespace binade::lab
