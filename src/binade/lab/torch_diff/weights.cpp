#include "binade/lab/torch_diff/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/io/huggingface_config.h"
#include "binade/lab/torch_diff/values.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::lab {
namespace {

constexpr size_t shown = 10;  // differences of names and shapes

// Parameters by which torch and files may call one.
std::vector<std::string> names_of(const io::Part& part, const io::Family& family) {
  std::vector<std::string> names = {part.file_name};
  if (part.file_name.starts_with(family.prefix))
    names.push_back(part.file_name.substr(family.prefix.size()));
  if (part.file_name == family.head) names.emplace_back("lm_head.weight");
  return names;
}

Tensor as_recorded(const Tensor& x, DType dtype) {
  const NoGrad no_grad;
  const amp::Autocast off(amp::disabled_autocast());
  return contiguous(to(cast(x, dtype), Device::cpu()));
}

// Where the sampled elements of a weight differ, or that none of them does.
TorchDifference sampled_difference(const PairedWeight& weight, const Tensor& ours,
                                   const Tensor& sample) {
  TorchDifference difference{.name = weight.name(), .torch = weight.torch};
  const Values all = values_of(ours), theirs = values_of(sample);
  Values mine{.shape = theirs.shape};
  for (int64_t i = 0; i < theirs.count(); ++i)
    mine.elements.push_back(all.elements[static_cast<size_t>(i * all.count() / theirs.count())]);
  difference.relative =
      distance_of(mine.elements, theirs.elements).rms / std::max(theirs.rms(), 1e-300);
  int64_t first = 0;
  while (first < theirs.count() &&
         mine.elements[static_cast<size_t>(first)] == theirs.elements[static_cast<size_t>(first)])
    ++first;
  if (first == theirs.count()) {
    difference.part = fmt::format("none of the {} elements that the recording has", first);
    return difference;
  }
  difference.index = element_index(ours.shape(), first * all.count() / theirs.count());
  difference.value = mine.elements[static_cast<size_t>(first)];
  difference.torch_value = theirs.elements[static_cast<size_t>(first)];
  return difference;
}

}  // namespace

std::string module_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? "" : parameter.substr(0, dot);
}

std::vector<PairedWeight> pair_weights(const nn::LanguageModel& model,
                                       const TorchRecording& recording) {
  const StateDict parameters = io::parameters_of(model);
  const io::Family& family = io::family_of(model.config());
  std::vector<PairedWeight> paired;
  std::vector<std::string> differences;
  for (const io::Part& part : io::parts_of(model.config(), parameters)) {
    const Shape shape = io::file_shape(parameters, part);
    const auto& recorded = recording.weights();
    const std::vector<std::string> names = names_of(part, family);
    const auto name =
        std::ranges::find_if(names, [&](const std::string& one) { return recorded.contains(one); });
    if (name == names.end()) {
      differences.push_back(fmt::format("missing: {} {}", part.file_name, to_string(shape)));
    } else if (recorded.at(*name).shape != shape) {
      differences.push_back(fmt::format("{}: expected {}, found {}", *name, to_string(shape),
                                        to_string(recorded.at(*name).shape)));
    } else {
      paired.push_back({part, *name});
    }
  }
  if (differences.empty()) return paired;
  const size_t count = differences.size();
  differences.resize(std::min(count, shown));
  fail("diff", {.argument = recording.name(),
                .expected = "a recording of a model with these parameters",
                .found = fmt::format("{} that differ{}", count, count > shown ? ", such as" : ""),
                .hint = "give the model that was recorded",
                .details = fmt::format("  {}", fmt::join(differences, "\n  "))});
}

std::map<std::string, std::vector<std::string>> torch_modules(
    const std::vector<PairedWeight>& weights) {
  std::map<std::string, std::vector<std::string>> modules;
  for (const PairedWeight& weight : weights) {
    std::vector<std::string>& names = modules[module_of(weight.part.parameter)];
    const std::string name = module_of(weight.torch);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return modules;
}

Tensor torch_part(const Tensor& whole, const PairedWeight& weight, const Shape& shape) {
  const NoGrad no_grad;
  return reshape(contiguous(io::view_of({{weight.part.parameter, whole}}, weight.part)), shape);
}

std::optional<TorchDifference> different_weight(const nn::LanguageModel& model,
                                                const std::vector<PairedWeight>& weights,
                                                const TorchRecording& recording) {
  const StateDict parameters = io::parameters_of(model);
  for (const PairedWeight& weight : weights) {
    const RecordedWeight& recorded = recording.weights().at(weight.torch);
    const Tensor ours = as_recorded(
        torch_part(parameters.at(weight.part.parameter), weight, recorded.shape), recorded.dtype);
    if (weight_checksum(ours) == recorded.checksum) continue;
    return sampled_difference(weight, ours, recording.load(recorded.sample));
  }
  return {};
}

}  // namespace binade::lab
