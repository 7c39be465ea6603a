#include "binade/io/weight_formats.h"

#include <algorithm>

#include "binade/base/json.h"
#include "binade/io/linear_targets.h"
#include "binade/io/weight_targets.h"
#include "binade/ops/quantized/round_weight.h"

namespace binade::io {
namespace {

constexpr const char* format_setter = "weight format";

const formats::WeightFormat& known_format(const std::string& name) {
  const formats::WeightFormat* format = formats::find_weight_format(name);
  if (format == nullptr)
    fail(format_setter, {.argument = "format",
                         .expected = formats::weight_format_names(),
                         .found = json::in_quotes(name)});
  return *format;
}

bool is_excluded(const WeightFormatOptions& options, const std::string& module) {
  return std::any_of(options.exclude.begin(), options.exclude.end(),
                     [&](const std::string& name) { return names_module(name, module); });
}

void check_exclusions(const WeightFormatOptions& options,
                      const std::vector<LinearTarget>& targets) {
  for (const std::string& name : options.exclude) {
    const bool found = std::any_of(targets.begin(), targets.end(), [&](const LinearTarget& one) {
      return names_module(name, one.module);
    });
    if (!found)
      fail(format_setter, {.argument = "exclude",
                           .expected = "linear layers of this model, such as " + targets[0].name() +
                                       " or " + targets[0].module,
                           .found = json::in_quotes(name)});
  }
}

void check_rows(const formats::WeightFormat& format, const std::string& module, int64_t columns) {
  if (columns % format.group_columns == 0) return;
  fail(format_setter, {.argument = module,
                       .expected = "rows of a multiple of " + std::to_string(format.group_columns) +
                                   " elements for " + std::string(format.name),
                       .found = std::to_string(columns),
                       .hint = "leave it out by that name (exclude), or choose another size"});
}

}  // namespace

std::vector<LinearTarget> formatted_targets(nn::LanguageModel& model,
                                            const WeightFormatOptions& options) {
  const formats::WeightFormat& format = known_format(options.format);
  std::vector<LinearTarget> targets = linear_targets(model);
  check_exclusions(options, targets);
  std::erase_if(targets, [&](const LinearTarget& one) { return is_excluded(options, one.module); });
  const auto linears = linears_of(model);
  for (const LinearTarget& one : targets)
    check_rows(format, one.module, linears.at(one.path)->weight.size(1));
  if (options.head) check_rows(format, "the head", model.head_weight().size(1));
  return targets;
}

void set_weight_format(nn::LanguageModel& model, const WeightFormatOptions& options) {
  const auto linears = linears_of(model);
  for (const auto& [path, linear] : linears) linear->set_weight_format(nullptr);
  model.set_head_format(nullptr);
  if (options.format.empty()) return;
  std::map<std::string, std::vector<WeightPart>> parts;
  for (const LinearTarget& one : formatted_targets(model, options))
    parts[one.path].push_back({one.part.begin, one.part.rows, one.part.heads});
  const formats::WeightFormat& format = known_format(options.format);
  for (auto& [path, some] : parts) linears.at(path)->set_weight_format(&format, std::move(some));
  if (options.head) model.set_head_format(&format);
}

}  // namespace binade::io
