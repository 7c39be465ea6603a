#include "binade/lab/replay/run_diff_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>
#include <vector>

#include "binade/train/config/keys.h"

namespace binade::lab {
namespace {

CauseKind kind_of_setting(const std::string& name) {
  if (name == "seed") return CauseKind::seed;
  if (name == "recipe") return CauseKind::recipe;
  for (const char* one : {"precision", "params", "residual", "override", "moments", "gradients"}) {
    if (name == one) return CauseKind::cast;
  }
  return CauseKind::setting;
}

// Copies one setting of `from`.
std::function<void(train::Config&)> giver_of(const std::string& name, const train::Config& from) {
  if (name == "override")
    return [&from](train::Config& to) { to.precision.overrides = from.precision.overrides; };
  const train::Key* const key = train::find_option("--" + name);
  if (key == nullptr) return {};
  return [key, &from](train::Config& to) {
    std::visit(
        [&](const auto& field) {
          if constexpr (requires { field.member; }) {
            field.member.in(to) = field.member.get(from);
          } else {
            field.set(to, field.get(from));
          }
        },
        key->field);
  };
}

bool is_cpu(const std::string& arithmetic) { return arithmetic.starts_with("cpu "); }

// The first position at which two runs' training tokens differ, and whether all of them occur as
// often in both.
struct TokenDifference {
  int64_t position = -1;
  bool reordered = false;
};
TokenDifference compare_tokens(const data::Tokens& a, const data::Tokens& b) {
  TokenDifference result;
  std::map<int64_t, int64_t> counts;
  const int64_t common = std::min(a.size(), b.size());
  for (int64_t i = 0; i < common; ++i) {
    const int64_t x = a[i], y = b[i];
    if (x == y) continue;
    if (result.position < 0) result.position = i;
    ++counts[x];
    --counts[y];
  }
  if (result.position < 0 && a.size() != b.size()) result.position = common;
  result.reordered = a.size() == b.size() && result.position >= 0 &&
                     std::ranges::all_of(counts, [](const auto& one) { return one.second == 0; });
  return result;
}

bool data_are_open(const RecordedRun& run) { return run.tokenizer != nullptr; }

// How often a mixture draws from its sources, "3 : 1"; empty: it is none.
std::string shares_of(const data::Tokens& tokens) {
  std::string text;
  for (const data::Tokens::Source& one : tokens.sources())
    text += fmt::format("{}{}", text.empty() ? "" : " : ", one.weight);
  return text;
}

// What of the data differs.
Cause data_cause(const RecordedRun& a, const RecordedRun& b) {
  if (!data_are_open(a) || !data_are_open(b))
    return {CauseKind::data, fmt::format("{} and {}", a.origin.data, b.origin.data)};
  const TokenDifference tokens = compare_tokens(a.split.train, b.split.train);
  if (tokens.position >= 0)
    return {tokens.reordered ? CauseKind::order : CauseKind::data,
            fmt::format("training tokens from position {} of {} and {} on", tokens.position,
                        a.split.train.size(), b.split.train.size())};
  const std::string x = shares_of(a.split.train), y = shares_of(b.split.train);
  if (x != y) return {CauseKind::data, fmt::format("sources in proportion {} and {}", x, y)};
  return {CauseKind::data, "documents, answers or validation tokens; training tokens are the same"};
}

std::string data_description(const RecordedRun& run) {
  return data_are_open(run) ? train::describe_data(run.split) : run.origin.data;
}

// Settings by which data are read. Their paths may differ without a difference of the tokens.
bool reads_data(const std::string& name) {
  return name == "validation" || name == "pack" || name == "chat" || name == "tokenizer";
}

RunDifference setting_difference(const train::SettingChange& change, const train::Config& b) {
  const bool of_data = reads_data(change.name);
  return {.cause = {change.name == "tokenizer" ? CauseKind::data : kind_of_setting(change.name),
                    fmt::format("{}: {} and {}", change.name, change.from, change.to)},
          .give = giver_of(change.name, b),
          .reads_data = of_data};
}

// An override has several keys, of which each is a change of its own.
train::SettingChange merged_change(train::SettingChange one, const train::SettingChange& other) {
  if (other.from != one.from) one.from += " " + other.from;
  if (other.to != one.to) one.to += " " + other.to;
  return one;
}

std::vector<train::SettingChange> changes_between(const train::Config& a, const train::Config& b) {
  std::vector<train::SettingChange> changes;
  for (const train::SettingChange& change : train::all_changed_settings(a, b)) {
    const bool continues = !changes.empty() && changes.back().name == change.name;
    continues ? void(changes.back() = merged_change(changes.back(), change))
              : changes.push_back(change);
  }
  return changes;
}

}  // namespace

std::string_view name(CauseKind kind) {
  constexpr std::string_view names[] = {"data",   "order of data", "seed",      "setting", "cast",
                                        "recipe", "kernels",       "processor", "version", "state"};
  return names[static_cast<size_t>(kind)];
}

std::vector<RunDifference> differences_of(const RecordedRun& a, const RecordedRun& b,
                                          int64_t step) {
  const train::Config &settings_a = a.settings_of(step), &settings_b = b.settings_of(step);
  std::vector<RunDifference> found;
  const std::string of_a = data_description(a), of_b = data_description(b);
  const bool other_data = of_a != of_b && !of_a.empty() && !of_b.empty();
  if (other_data) found.push_back({.cause = data_cause(a, b), .gives_tokens = true});
  for (const train::SettingChange& change : changes_between(settings_a, settings_b)) {
    const bool matters = change.changes_bits || change.name == "steps" ||
                         change.name == "init-from" || (other_data && reads_data(change.name));
    if (matters) found.push_back(setting_difference(change, settings_b));
  }
  const std::string &x = a.origin.arithmetic, &y = b.origin.arithmetic;
  if (x != y && !x.empty() && !y.empty()) {
    found.push_back({{is_cpu(x) && is_cpu(y) ? CauseKind::kernels : CauseKind::processor,
                      fmt::format("{} and {}", x, y)}});
  }
  if (a.origin.base != b.origin.base && !a.origin.base.empty() && !b.origin.base.empty())
    found.push_back({{CauseKind::setting, fmt::format("the weights in --init-from: {} and {}",
                                                      a.origin.base, b.origin.base)}});
  if (a.origin.version != b.origin.version && !a.origin.version.empty() &&
      !b.origin.version.empty())
    found.push_back({{CauseKind::version,
                      fmt::format("Binade {} and {}", a.origin.version, b.origin.version)}});
  return found;
}

}  // namespace binade::lab
