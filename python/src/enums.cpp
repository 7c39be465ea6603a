#include "enums.h"

#include <span>
#include <utility>

#include "binade/base/error.h"

namespace binade::python {
namespace {

template <class Value>
Value choose(const char* argument, const std::string& name,
             std::span<const std::pair<const char*, Value>> choices) {
  std::string known;
  for (const auto& [text, value] : choices) {
    if (name == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  fail(argument, {.argument = argument, .expected = "one of " + known, .found = "'" + name + "'"});
}

}  // namespace

Activation parse_activation(const std::string& name) {
  static constexpr std::pair<const char*, Activation> choices[] = {
      {"none", Activation::none},
      {"relu", Activation::relu},
      {"gelu", Activation::gelu},
      {"gelu_tanh", Activation::gelu_tanh},
      {"silu", Activation::silu}};
  return choose<Activation>("activation", name, choices);
}

Reduce parse_reduce(const std::string& name) {
  static constexpr std::pair<const char*, Reduce> choices[] = {
      {"mean", Reduce::mean}, {"sum", Reduce::sum}, {"none", Reduce::none}};
  return choose<Reduce>("reduction", name, choices);
}

CastClass parse_cast_class(const std::string& text) {
  if (const auto found = find_cast_class(text)) return *found;
  fail("policy", {.argument = "cast",
                  .expected = "one of lower, f32, f32_unless_named, promote, refuse, as_is",
                  .found = "'" + text + "'"});
}

nn::ResNetBlock parse_resnet_block(const std::string& name) {
  static constexpr std::pair<const char*, nn::ResNetBlock> choices[] = {
      {"basic", nn::ResNetBlock::basic}, {"bottleneck", nn::ResNetBlock::bottleneck}};
  return choose<nn::ResNetBlock>("block", name, choices);
}

}  // namespace binade::python
