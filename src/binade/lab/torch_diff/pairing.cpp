#include "binade/lab/torch_diff/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/text.h"

namespace binade::lab {
namespace {

constexpr double movements = 8, roundings = 4, roundings_of_one = 20;  // of limit_of()
constexpr size_t longest_text = 400;                                   // of what a recording says
constexpr int64_t neighborhood = 64;                                   // of results

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

std::vector<std::vector<size_t>> consumers_of(const std::vector<RecordedResult>& results) {
  std::vector<std::vector<size_t>> consumers(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    for (const int64_t source : results[i].from)
      consumers[static_cast<size_t>(source)].push_back(i);
  }
  return consumers;
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
  const double few = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(x.count(), 1)));
  const double own = (roundings + (roundings_of_one - roundings) * few) * roundoff;
  return {.rms = movements * distance.rms + own * x.rms(),
          .largest = movements * distance.largest + own * largest_of(x.elements)};
}

bool is_noise(const Values& x, const Distance& limit) { return limit.rms >= x.rms() / 2; }

RecordedValues::RecordedValues(const TorchRecording& recording)
    : recording_(recording), consumers_(consumers_of(recording.results())) {
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

void RecordedValues::add_match(std::vector<Counterpart>& found, size_t result, const Values& x,
                               const Distance& limit) {
  if (std::fabs(norm_of(result) - x.norm) > norm_limit(x, limit)) return;
  const Values y = load(result);
  auto order = matching_order(x, y, limit);
  if (!order) return;
  const Distance distance = distance_of(x.elements, reordered(y, *order));
  found.push_back({result, *std::move(order), distance});
}

std::vector<Counterpart> RecordedValues::find(const Values& x, const Distance& limit,
                                              double roundoff, int64_t around) {
  std::vector<Counterpart> found;
  const auto same_count = by_count_.find(x.count());
  if (same_count == by_count_.end()) return found;
  const auto is_near = [around](size_t result) {
    return std::abs(static_cast<int64_t>(result) - around) <= neighborhood;
  };
  for (const bool near : {true, false}) {
    for (const size_t result : same_count->second) {
      if (is_near(result) == near) add_match(found, result, x, limit);
    }
    if (!found.empty()) break;
  }
  std::ranges::stable_sort(found, {}, [](const Counterpart& one) { return one.distance.rms; });
  if (found.empty()) return found;
  const double as_near = 2 * found[0].distance.rms + roundoff * x.rms();
  std::erase_if(found, [&](const Counterpart& one) { return one.distance.rms > as_near; });
  return found;
}

bool RecordedValues::all_goes_through(size_t result, const std::set<size_t>& sources,
                                      const Region& region) const {
  std::set<size_t> seen, next = sources;
  bool reached = false;
  while (!next.empty()) {
    const size_t one = *next.begin();
    next.erase(next.begin());
    if (!seen.insert(one).second) continue;
    for (const size_t consumer : consumers_[one]) {
      if (consumer == result) {
        reached = true;
      } else if (region.end && consumer >= *region.end) {
        return false;
      } else {
        next.insert(consumer);
      }
    }
  }
  return reached;
}

std::optional<Counterpart> RecordedValues::instead_of(const Values& x,
                                                      const std::set<size_t>& sources,
                                                      const Region& region,
                                                      const std::set<size_t>& taken) const {
  const auto same_count = by_count_.find(x.count());
  if (same_count == by_count_.end()) return {};
  std::optional<Counterpart> nearest;
  double least = 0;
  for (const size_t result : same_count->second) {
    const bool is_inside =
        static_cast<int64_t>(result) > region.after && result < region.end.value_or(result + 1);
    if (!is_inside || taken.contains(result)) continue;
    Counterpart one{result, nearest_order(x, load(result))};
    if (all_goes_through(result, sources, region)) return one;
    const double distance = relative_distance(x, one);
    if (nearest && !(distance < least)) continue;
    nearest = std::move(one);
    least = distance;
  }
  return nearest;
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
  return visible(shortened(text, longest_text));
}

}  // namespace binade::lab
