#include "binade/io/gguf/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/base_parts.h"
#include "binade/io/gguf/architecture.h"
#include "binade/io/gguf/keys.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::io::gguf {
namespace {

bool is_decoded(const TensorType& type) {
  return type.blocks() != nullptr || (type.dtype && is_compute(*type.dtype));
}

bool shape_fits(const NamedPart& part, const Shape& expected, const std::vector<int64_t>& found,
                Positions positions) {
  const bool longer = positions == Positions::at_least &&
                      part.part.parameter == "positions.weight" && found.size() == 2 &&
                      found[0] > expected[0] && found[1] == expected[1];
  return longer || std::equal(expected.begin(), expected.end(), found.begin(), found.end());
}

void check_parts(const std::vector<NamedPart>& parts, const StateDict& parameters, const File& file,
                 Positions positions) {
  constexpr size_t shown = 1000;  // a malicious file could name millions
  std::vector<std::string> lines;
  std::set<std::string_view> known = {rope_divisors};
  for (const NamedPart& part : parts) {
    known.insert(part.name);
    const Shape shape = file_shape(parameters, part);
    const TensorInfo* tensor = file.find(part.name);
    if (tensor == nullptr) {
      lines.push_back("missing: " + part.name + " " + to_string(shape));
    } else if (!is_decoded(*tensor->type)) {
      lines.push_back(part.name + ": a type that Binade does not read, " + describe(*tensor));
    } else if (!shape_fits(part, shape, tensor->shape, positions)) {
      lines.push_back(part.name + ": expected " + to_string(shape) + ", found " +
                      describe(*tensor));
    }
  }
  for (const TensorInfo& tensor : file.tensors()) {
    if (!known.contains(tensor.name))
      lines.push_back("not in this model: " + json::in_quotes(tensor.name));
  }
  if (lines.empty()) return;
  const size_t count = lines.size();
  if (count > shown) {
    lines.resize(shown);
    lines.push_back(fmt::format("and {} more", count - shown));
  }
  fail(reader_name, {.argument = file.path(),
                     .expected = "the tensors that its keys describe",
                     .found = fmt::format("these differences:\n  {}", fmt::join(lines, "\n  "))});
}

}  // namespace

void check_weights(const nn::LanguageModelConfig& config, const File& file, Positions positions) {
  const nn::LanguageModel model(config, {Device::meta(), DType::f32});
  const StateDict parameters = parameters_of(model);
  check_parts(named_parts(architecture_of(file), config, parameters), parameters, file, positions);
}

void load_weights(nn::LanguageModel& model, const File& file, Positions positions) {
  const StateDict parameters = parameters_of(model);
  const auto parts = named_parts(architecture_of(file), model.config(), parameters);
  check_parts(parts, parameters, file, positions);
  const NoGrad no_grad;
  const BaseParts base(model);
  for (const NamedPart& part : parts) {
    if (base.hold(part.part)) {
      base.load(part, file);
      continue;
    }
    Tensor source = file.load(*file.find(part.name));
    const Shape shape = file_shape(parameters, part);
    if (source.size(0) > shape[0]) source = slice(source, 0, 0, shape[0]);
    if (part.plus_one) source = cast(source, DType::f32) - 1.0;
    const Tensor target = view_of(parameters, part);
    copy_(target, part.interleaved_heads == 0 ? source : reshape(source, target.shape()));
  }
}

DType stored_type(const File& file) {
  std::optional<DType> type;
  for (const TensorInfo& tensor : file.tensors()) {
    // Norms and biases are f32 whatever the type of the matrices.
    if (tensor.shape.size() < 2 || !is_decoded(*tensor.type)) continue;
    const DType one = tensor.type->dtype.value_or(DType::f32);
    type = type ? promote(*type, one) : one;
  }
  return type.value_or(DType::f32);
}

}  // namespace binade::io::gguf
