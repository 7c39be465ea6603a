#include "binade/lab/torch_diff/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace binade::lab {
namespace {

// The distance of a tensor that has nothing to do with another is about the square root of 2.
constexpr double unrelated = 1.3;
constexpr double movements = 8, roundings = 4;  // of limit_of()

double largest_of(const std::vector<float>& elements) {
  double largest = 0;
  for (const float x : elements) {
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(static_cast<double>(x)));
  }
  return largest;
}

std::vector<ResultPart> split_at(int64_t width,
                                 std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  std::vector<ResultPart> parts;
  int64_t begin = 0;
  for (const auto& [name, size] : sizes) {
    ResultPart part{.name = name, .width = width, .begin = begin, .end = begin + size};
    parts.push_back(std::move(part));
    begin += size;
  }
  return parts;
}

// Results that something outside of their function or module reads, or nothing at all.
std::vector<bool> leaving(const std::vector<RecordedResult>& results) {
  std::vector<bool> leaves(results.size(), true);
  for (const RecordedResult& consumer : results) {
    for (const int64_t source : consumer.from) leaves[static_cast<size_t>(source)] = false;
  }
  for (const RecordedResult& consumer : results) {
    for (const int64_t source : consumer.from) {
      const RecordedResult& one = results[static_cast<size_t>(source)];
      if (one.function != consumer.function || one.module != consumer.module ||
          !one.outputs.empty())
        leaves[static_cast<size_t>(source)] = true;
    }
  }
  return leaves;
}

}  // namespace

std::vector<ResultPart> packed_parts(const nn::LanguageModelConfig& config,
                                     const std::string& module, int64_t width) {
  const int64_t kv_heads = config.kv_heads == 0 ? config.heads : config.kv_heads;
  const int64_t heads = config.heads + 2 * kv_heads;
  const bool is_qkv = module.ends_with(".attention.qkv") || module.ends_with(".attention");
  const int64_t dim = width / heads;
  const bool is_head = dim == config.head_width() || (dim == config.rotary_dim && dim > 0);
  if (is_qkv && width % heads == 0 && is_head) {
    return split_at(width,
                    {{"q", config.heads * dim}, {"k", kv_heads * dim}, {"v", kv_heads * dim}});
  }
  const bool is_mlp = module.ends_with(".mlp.up") || module.ends_with(".mlp");
  if (is_mlp && config.gated && width == 2 * config.hidden)
    return split_at(width, {{"gate", config.hidden}, {"up", config.hidden}});
  return {};
}

Values part_of(const Values& whole, const ResultPart& part) {
  return part.name.empty() ? whole : columns_of(whole, part.width, part.begin, part.end);
}

Distance limit_of(const Values& x, const Values& moved, double roundoff) {
  const Distance distance = distance_of(x.elements, moved.elements);
  return {.rms = movements * distance.rms + roundings * roundoff * x.rms(),
          .largest = movements * distance.largest + roundings * roundoff * largest_of(x.elements)};
}

bool is_noise(const Values& x, const Distance& limit) { return limit.rms >= x.rms() / 2; }

RecordedValues::RecordedValues(const TorchRecording& recording)
    : recording_(recording), leaves_(leaving(recording.results())) {
  for (size_t i = 0; i < recording.results().size(); ++i) {
    if (recording.results()[i].value.empty()) continue;
    by_count_[count_of(i)].push_back(i);
    for (const std::string& module : recording.results()[i].outputs) outputs_[module].push_back(i);
  }
}

int64_t RecordedValues::count_of(size_t result) const {
  const std::string& value = recording_.results()[result].value;
  return value.empty() ? -1 : recording_.shape_of(value).numel();
}

Values RecordedValues::load(size_t result) const {
  return values_of(recording_.load(recording_.results()[result].value));
}

double RecordedValues::norm_of(size_t result) {
  const auto [entry, is_new] = norms_.try_emplace(result);
  if (is_new) entry->second = load(result).norm;
  return entry->second;
}

std::vector<Counterpart> RecordedValues::find(const Values& x, const Distance& limit) {
  std::vector<Counterpart> found;
  const auto same_count = by_count_.find(x.count());
  if (same_count == by_count_.end()) return found;
  const double apart = norm_limit(x, limit);
  for (const size_t result : same_count->second) {
    if (std::fabs(norm_of(result) - x.norm) > apart) continue;
    if (auto order = matching_order(x, load(result), limit))
      found.push_back({result, *std::move(order)});
  }
  return found;
}

std::optional<Counterpart> RecordedValues::nearest(const Values& x, const Region& region,
                                                   const std::set<size_t>& taken) {
  std::optional<Counterpart> best;
  std::pair<bool, double> least;  // those that leave come first
  const auto same_count = by_count_.find(x.count());
  if (same_count == by_count_.end()) return best;
  for (const size_t result : same_count->second) {
    const bool is_inside =
        static_cast<int64_t>(result) > region.after && result < region.end.value_or(result + 1);
    if (!is_inside || taken.contains(result)) continue;
    Counterpart one{result, nearest_order(x, load(result))};
    const double distance = relative_distance(x, one);
    const std::pair rank(!leaves_[result] || !(distance < unrelated), distance);
    if (best && !(rank < least)) continue;
    best = std::move(one);
    least = rank;
  }
  return best;
}

std::vector<size_t> RecordedValues::outputs_of(const std::string& module) const {
  const auto found = outputs_.find(module);
  return found == outputs_.end() ? std::vector<size_t>() : found->second;
}

std::optional<Counterpart> RecordedValues::output_of(const std::string& module, const Values& x) {
  for (const size_t result : outputs_of(module)) {
    if (count_of(result) == x.count()) return Counterpart{result, nearest_order(x, load(result))};
  }
  return {};
}

std::optional<Counterpart> RecordedValues::input_of(const std::string& module, const Values& x) {
  const auto& results = recording_.results();
  const auto first = std::ranges::find_if(results, [&](const RecordedResult& one) {
    return one.module == module && !one.from.empty();
  });
  if (first == results.end()) return {};
  const auto source = static_cast<size_t>(first->from[0]);
  if (count_of(source) != x.count()) return {};
  return Counterpart{source, nearest_order(x, load(source))};
}

double RecordedValues::relative_distance(const Values& x, const Counterpart& counterpart) const {
  const Values y = load(counterpart.result);
  return distance_of(x.elements, reordered(y, counterpart.order)).rms /
         std::max({x.rms(), y.rms(), 1e-300});
}

std::string describe(const RecordedResult& result) {
  std::string text = result.module.empty() ? "" : result.module + ": ";
  text += result.op;
  if (!result.function.empty()) text += fmt::format(" in {} ({})", result.function, result.line);
  return text;
}

}  // namespace binade::lab
