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

void add_data(const RecordedRun& a, const RecordedRun& b, std::vector<RunDifference>& found) {
  if (!a.tokenizer || !b.tokenizer) {
    if (a.origin.data != b.origin.data)
      found.push_back({{CauseKind::data, fmt::format("{} and {}", a.origin.data, b.origin.data)}});
    return;
  }
  if (a.tokenizer->model() != b.tokenizer->model())
    found.push_back({{CauseKind::data, "the tokenizers"}});
  const TokenDifference tokens = compare_tokens(a.split.train, b.split.train);
  if (tokens.position < 0) return;
  found.push_back({{tokens.reordered ? CauseKind::order : CauseKind::data,
                    fmt::format("training tokens from position {} of {} and {} on", tokens.position,
                                a.split.train.size(), b.split.train.size())}});
}

}  // namespace

std::string_view name(CauseKind kind) {
  constexpr std::string_view names[] = {"data",   "order of data", "seed",      "setting", "cast",
                                        "recipe", "kernels",       "processor", "version", "state"};
  return names[static_cast<size_t>(kind)];
}

std::vector<RunDifference> differences_of(const RecordedRun& a, const RecordedRun& b) {
  std::vector<RunDifference> found;
  for (const train::SettingChange& change : train::all_changed_settings(a.config, b.config)) {
    if (!change.changes_bits && change.name != "steps" && change.name != "init-from") continue;
    found.push_back({{kind_of_setting(change.name),
                      fmt::format("{}: {} and {}", change.name, change.from, change.to)},
                     giver_of(change.name, b.config)});
  }
  add_data(a, b, found);
  const std::string &x = a.origin.arithmetic, &y = b.origin.arithmetic;
  if (x != y && !x.empty() && !y.empty()) {
    found.push_back({{is_cpu(x) && is_cpu(y) ? CauseKind::kernels : CauseKind::processor,
                      fmt::format("{} and {}", x, y)}});
  }
  if (a.origin.version != b.origin.version && !a.origin.version.empty() &&
      !b.origin.version.empty())
    found.push_back({{CauseKind::version,
                      fmt::format("Binade {} and {}", a.origin.version, b.origin.version)}});
  return found;
}

}  // namespace binade::lab
