#include "binade/io/linear_targets.h"

#include "binade/base/text.h"
#include "binade/io/lora.h"

namespace binade::io {
namespace {

std::string without_suffix(const std::string& name, std::string_view suffix) {
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

}  // namespace

std::vector<LinearTarget> linear_targets(const nn::LanguageModel& model) {
  std::vector<LinearTarget> targets;
  for (const Part& part : parts_of(model.config(), parameters_of(model))) {
    const bool linear =
        part.parameter.ends_with(".qkv.weight") || part.parameter.ends_with(".out.weight") ||
        part.parameter.ends_with(".up.weight") || part.parameter.ends_with(".down.weight");
    if (linear)
      targets.push_back({part, without_suffix(part.file_name, ".weight"),
                         without_suffix(part.parameter, ".weight")});
  }
  return targets;
}

std::map<std::string, nn::Linear*> linears_of(nn::LanguageModel& model) {
  std::map<std::string, nn::Linear*> linears;
  for (const auto& [path, module] : model.named_modules()) {
    if (auto* linear = dynamic_cast<nn::Linear*>(module)) linears[path] = linear;
  }
  return linears;
}

bool names_module(std::string_view target, std::string_view module) {
  if (target == all_linear || target == module) return true;
  if (target.find_first_of("*?") != std::string_view::npos) return matches_glob(target, module);
  return module.ends_with("." + std::string(target));
}

}  // namespace binade::io
