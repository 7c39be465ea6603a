#include "binade/amp/recipe/recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/backend/capabilities.h"
#include "binade/base/error.h"

namespace binade::amp {
namespace {

constexpr std::string_view role_names[] = {"input",      "weight",      "gradient",     "hidden",
                                           "head_input", "head_weight", "head_gradient"};
constexpr Role operand_roles[] = {Role::input, Role::weight, Role::gradient};
constexpr Role head_roles[] = {Role::head_input, Role::head_weight, Role::head_gradient};

[[noreturn]] void refuse_field(const std::string& field, const std::string& expected,
                               const std::string& found) {
  fail("recipe", {.argument = field, .expected = expected, .found = found});
}

std::string in_words(const ScaleGroup& group) {
  return fmt::format("[{}, {}]", group.rows, group.columns);
}

void check_delayed(const std::string& role, const TensorRecipe& tensor) {
  const Delayed& delayed = tensor.delayed();
  if (delayed.history < 1 || delayed.history > 65536)
    refuse_field(role + ".history", "1 to 65536", std::to_string(delayed.history));
  if (delayed.margin < -64 || delayed.margin > 64)
    refuse_field(role + ".margin", "-64 to 64", std::to_string(delayed.margin));
  if (!tensor.is_per_tensor())
    refuse_field(role + ".group", "[0, 0], one scale per tensor, beside a delayed source",
                 in_words(tensor.group));
  if (tensor.eps != 0)
    refuse_field(role + ".eps", "0 beside a delayed source", fmt::format("{}", tensor.eps));
}

// The formats of scales that a rule goes with.
enum class ScaleKind : uint8_t { f32, powers_of_two, small_floats };

ScaleKind scale_kind_of(ScaleRule rule) {
  if (rule == ScaleRule::nvfp4) return ScaleKind::small_floats;
  return is_mx(rule) ? ScaleKind::powers_of_two : ScaleKind::f32;
}

bool is_scale_of(ScaleKind kind, const formats::Format& format) {
  switch (kind) {
    case ScaleKind::f32:
      return format == formats::spec::f32;
    case ScaleKind::powers_of_two:
      return format.specials == formats::Specials::exponent_only;
    default:
      return format.bits() <= 8 && format.has_zero() && format.has_nan();
  }
}

constexpr const char* scale_kind_names[] = {"f32", "e8m0 or other powers of two such as ue5m0",
                                            "e4m3 or another float of up to 8 bits with NaN"};

// Numbers of both signs and zero.
bool is_data_format(const formats::Format& format) {
  return format.bits() <= 8 && format.is_signed() && format.has_zero();
}

// Delayed scales are known to kernels that write e4m3 and e5m2 alone.
bool has_own_type(const formats::Format& format) { return stored_type(format) != DType::u8; }

void check_rounding(const std::string& role, const TensorRecipe& tensor) {
  if (tensor.four_over_six &&
      (tensor.rule != ScaleRule::nvfp4 || tensor.format != formats::spec::e2m1))
    refuse_field(role + ".four_over_six", "false but for e2m1 with the rule nvfp4", "true");
  if (tensor.stochastic && !std::holds_alternative<Current>(tensor.source))
    refuse_field(role + ".stochastic", "false beside a source that is not current", "true");
}

void check_tensor(const std::string& role, const TensorRecipe& tensor) {
  if (!is_data_format(tensor.format))
    refuse_field(role + ".format", "one of up to 8 bits with a sign and a zero",
                 tensor.format.name);
  const bool only_current = scale_kind_of(tensor.rule) != ScaleKind::f32;
  check_rounding(role, tensor);
  if (!(tensor.eps >= 0)) refuse_field(role + ".eps", "at least 0", fmt::format("{}", tensor.eps));
  const auto [group_rows, group_columns] = tensor.group;
  if (std::min(group_rows, group_columns) < 0 || std::max(group_rows, group_columns) > max_group)
    refuse_field(role + ".group", fmt::format("sizes from 0, which means all, to {}", max_group),
                 in_words(tensor.group));
  if (!is_scale_of(scale_kind_of(tensor.rule), tensor.scale))
    refuse_field(role + ".scale",
                 fmt::format("{} with the rule {}",
                             scale_kind_names[static_cast<size_t>(scale_kind_of(tensor.rule))],
                             name(tensor.rule)),
                 tensor.scale.name);
  if (is_mx(tensor.rule) && tensor.group != ScaleGroup{1, 32})
    refuse_field(role + ".group", fmt::format("[1, 32] with the rule {}", name(tensor.rule)),
                 in_words(tensor.group));
  if (only_current && (tensor.is_delayed() || tensor.eps != 0))
    refuse_field(role + ".source",
                 fmt::format("current, without eps, with the rule {}", name(tensor.rule)),
                 tensor.is_delayed() ? "delayed" : "an eps");
  if (!std::holds_alternative<Current>(tensor.source) && !has_own_type(tensor.format))
    refuse_field(role + ".format", "e4m3 or e5m2 beside a source that is not current",
                 tensor.format.name);
  if (tensor.is_delayed()) check_delayed(role, tensor);
}

void require_operand(const Recipe& recipe, bool quantized, const char* matmul, Role role) {
  if (quantized && !recipe.tensors[role])
    refuse_field(std::string(name(role)), fmt::format("a format, which {} reads", matmul), "none");
}

// Fields that wgrad's operands need beside a transform, and roles that cannot draw.
void check_random(const Recipe& recipe) {
  constexpr int max_hadamard = 64;
  const int size = recipe.wgrad_hadamard;
  if (size < 0 || size > max_hadamard || (size & (size - 1)) != 0 || size == 1)
    refuse_field("wgrad_hadamard", fmt::format("0 or a power of two from 2 to {}", max_hadamard),
                 std::to_string(size));
  for (const Role role : {Role::input, Role::gradient}) {
    const std::optional<TensorRecipe>& tensor = recipe.tensors[role];
    if (size > 0 && tensor && !std::holds_alternative<Current>(tensor->source))
      refuse_field("wgrad_hadamard",
                   fmt::format("0 beside a source of {} that is not current", name(role)),
                   std::to_string(size));
  }
  if (recipe.random_signs && size == 0)
    refuse_field("random_signs", "false without wgrad_hadamard", "true");
  for (const Role role : all_roles) {
    if (role != Role::input && role != Role::gradient && recipe.tensors[role] &&
        recipe.tensors[role]->stochastic)
      refuse_field(std::string(name(role)) + ".stochastic",
                   "false: inputs and gradients alone can be rounded so", "true");
  }
}

void check_hidden(const Recipe& recipe) {
  const std::optional<TensorRecipe>& hidden = recipe.tensors[Role::hidden];
  if (!hidden) return;
  if (!hidden->is_delayed() || hidden->rule != ScaleRule::power_of_two ||
      hidden->format != formats::spec::e4m3)
    refuse_field("hidden", "e4m3 with delayed scales that are powers of two", "another recipe");
  if (!recipe.is_delayed())
    refuse_field("hidden", "delayed scales of input, weight and gradient beside it", "others");
}

void check_head(const Recipe& recipe) {
  for (const Role role : head_roles) {
    const std::optional<TensorRecipe>& tensor = recipe.tensors[role];
    if (tensor.has_value() != recipe.tensors[Role::head_input].has_value())
      refuse_field(std::string(name(role)), "all of the head's three roles or none", "some");
    if (!tensor) continue;
    if (role == Role::head_gradient) {
      if (*tensor != TensorRecipe{.format = tensor->format, .source = Constant{}})
        refuse_field("head_gradient", "a format and a constant scale", "other fields");
      continue;
    }
    if (!std::holds_alternative<Current>(tensor->source) || !tensor->is_per_tensor() ||
        tensor->format != formats::spec::e4m3)
      refuse_field(std::string(name(role)), "e4m3 with one current scale per tensor",
                   "another recipe");
  }
}

// One of 4 bits would lose most gradients of logits with a constant scale.
const formats::Format& head_gradient_format(const formats::Format& of_layers) {
  return of_layers.bits() == 8 ? of_layers : formats::spec::e5m2;
}

// A recipe whose weights, activations and gradients share all but their formats: e4m3, and e5m2 for
// gradients.
Recipe hybrid(std::string name, const TensorRecipe& tensor) {
  Recipe recipe{.name = std::move(name)};
  for (const Role role : operand_roles) recipe.tensors[role] = tensor;
  recipe.tensors[Role::gradient]->format = formats::spec::e5m2;
  return recipe;
}

// A recipe whose operands are all of one format.
Recipe in_format(const formats::Format& format, std::string name, TensorRecipe tensor) {
  tensor.format = format;
  Recipe recipe{.name = std::move(name)};
  for (const Role role : operand_roles) recipe.tensors[role] = tensor;
  return recipe;
}

}  // namespace

QuantizedLayout TensorRecipe::layout() const {
  QuantizedLayout layout{.format = format, .group = group, .scale = scale};
  if (rule == ScaleRule::nvfp4) layout.outer = ScaleGroup{};
  return layout;
}

void check_current(const TensorRecipe& recipe) {
  check_tensor("recipe", recipe);
  if (!std::holds_alternative<Current>(recipe.source))
    refuse_field("recipe.source", "current", "another");
}

std::string_view name(ScaleRule rule) {
  for (const auto& [value, name] : rule_names) {
    if (value == rule) return name;
  }
  return {};
}

std::optional<ScaleRule> find_rule(std::string_view name) {
  for (const auto& [value, known] : rule_names) {
    if (known == name) return value;
  }
  return {};
}

std::string_view name(Role role) { return role_names[static_cast<size_t>(role)]; }

bool is_mx(ScaleRule rule) {
  return rule == ScaleRule::mx_floor || rule == ScaleRule::mx_ceil ||
         rule == ScaleRule::mx_round_up;
}

bool Recipe::is_random() const {
  return random_signs || std::any_of(std::begin(all_roles), std::end(all_roles), [this](Role role) {
           return tensors[role] && tensors[role]->stochastic;
         });
}

bool Recipe::is_delayed() const {
  return std::all_of(std::begin(operand_roles), std::end(operand_roles),
                     [this](Role role) { return tensors[role] && tensors[role]->is_delayed(); });
}

bool Recipe::is_per_tensor() const {
  return std::all_of(std::begin(operand_roles), std::end(operand_roles), [this](Role role) {
    return !tensors[role] || tensors[role]->is_per_tensor();
  });
}

void Recipe::set_head(bool on) {
  constexpr Role operands[] = {Role::input, Role::weight, Role::gradient};
  for (size_t i = 0; i < std::size(head_roles); ++i) {
    std::optional<TensorRecipe>& head = tensors[head_roles[i]];
    const std::optional<TensorRecipe>& of_layers = tensors[operands[i]];
    head = {};
    if (!on || !of_layers) continue;
    head = TensorRecipe{};
    if (head_roles[i] == Role::head_gradient)
      head = {.format = head_gradient_format(of_layers->format), .source = Constant{}};
  }
}

void Recipe::set_hidden(bool on) {
  std::optional<TensorRecipe>& hidden = tensors[Role::hidden];
  hidden = {};
  if (!on || !tensors[Role::input]) return;
  hidden = *tensors[Role::input];
  hidden->format = formats::spec::e4m3;
  hidden->rule = ScaleRule::power_of_two;
}

void Recipe::check() const {
  for (const auto& [field, blocks] :
       {std::pair("skip_first", skip_first), {"skip_last", skip_last}}) {
    if (blocks < 0 || blocks > max_blocks)
      refuse_field(field, fmt::format("0 to {}", max_blocks), std::to_string(blocks));
  }
  if (!(until >= 0 && until <= 1)) refuse_field("until", "0 to 1", fmt::format("{}", until));
  for (const Role role : all_roles) {
    if (!tensors[role]) continue;
    check_tensor(std::string(amp::name(role)), *tensors[role]);
    const bool is_constant = std::holds_alternative<Constant>(tensors[role]->source);
    if (is_constant != (role == Role::head_gradient))
      refuse_field(std::string(amp::name(role)) + ".source",
                   is_constant ? "current or delayed" : "constant",
                   is_constant ? "constant" : "another");
  }
  require_operand(*this, matmuls.forward, "the forward matmul", Role::input);
  require_operand(*this, matmuls.forward, "the forward matmul", Role::weight);
  require_operand(*this, matmuls.dgrad, "dgrad", Role::gradient);
  require_operand(*this, matmuls.dgrad, "dgrad", Role::weight);
  require_operand(*this, matmuls.wgrad, "wgrad", Role::gradient);
  require_operand(*this, matmuls.wgrad, "wgrad", Role::input);
  check_random(*this);
  check_hidden(*this);
  check_head(*this);
}

void Recipe::check_device(Device device) const {
  if (backend::capabilities(device).has_packed_codes) return;
  const auto refuse = [](const std::string& field, const char* expected, std::string_view found) {
    fail("recipe", {.argument = field,
                    .expected = std::string(expected) + " on a GPU",
                    .found = std::string(found),
                    .hint = "CPUs run it: --device cpu"});
  };
  for (const Role role : all_roles) {
    if (!tensors[role]) continue;
    const TensorRecipe& tensor = *tensors[role];
    const std::string prefix = std::string(amp::name(role)) + ".";
    if (!has_own_type(tensor.format)) refuse(prefix + "format", "e4m3 or e5m2", tensor.format.name);
    if (is_mx(tensor.rule) && tensor.rule != ScaleRule::mx_floor)
      refuse(prefix + "rule", "mx_floor, largest or power_of_two", amp::name(tensor.rule));
    if (tensor.rule == ScaleRule::nvfp4) refuse(prefix + "rule", "another rule", "nvfp4");
    if (is_mx(tensor.rule) && tensor.scale != formats::spec::e8m0)
      refuse(prefix + "scale", "e8m0", tensor.scale.name);
    if (tensor.stochastic) refuse(prefix + "stochastic", "false", "true");
  }
  if (wgrad_hadamard > 0) refuse("wgrad_hadamard", "0", std::to_string(wgrad_hadamard));
  if (until < 1) refuse("until", "1", fmt::format("{}", until));
}

namespace recipes {

const Recipe& delayed() {
  static const Recipe recipe = hybrid("delayed", {.source = Delayed{}});
  return recipe;
}

const Recipe& current() {
  static const Recipe recipe = hybrid("current", {});
  return recipe;
}

const Recipe& row() {
  static const Recipe recipe = hybrid("row", {.group = {1, 0}});
  return recipe;
}

const Recipe& block() {
  static const Recipe recipe = [] {
    Recipe blocks = hybrid("block", {.group = {1, 128}, .rule = ScaleRule::power_of_two});
    blocks.tensors[Role::weight]->group = {128, 128};
    return blocks;
  }();
  return recipe;
}

const Recipe& mx() {
  static const Recipe recipe =
      hybrid("mx", {.group = {1, 32}, .scale = formats::spec::e8m0, .rule = ScaleRule::mx_floor});
  return recipe;
}

const Recipe& mxfp8() {
  static const Recipe recipe = [] {
    TensorRecipe tensor = mx()[Role::input];
    tensor.rule = ScaleRule::mx_round_up;
    return in_format(formats::spec::e4m3, "mxfp8", tensor);
  }();
  return recipe;
}

const Recipe& mxfp6() {
  static const Recipe recipe = [] {
    Recipe six = in_format(formats::spec::e2m3, "mxfp6", mx()[Role::input]);
    six.tensors[Role::gradient]->format = formats::spec::e3m2;
    return six;
  }();
  return recipe;
}

const Recipe& mxfp4() {
  static const Recipe recipe = in_format(formats::spec::e2m1, "mxfp4", mx()[Role::input]);
  return recipe;
}

const Recipe& nvfp4_plain() {
  static const Recipe recipe = [] {
    Recipe groups =
        in_format(formats::spec::e2m1, "nvfp4-plain",
                  {.group = {1, 16}, .scale = formats::spec::e4m3, .rule = ScaleRule::nvfp4});
    groups.tensors[Role::weight]->group = {16, 16};
    return groups;
  }();
  return recipe;
}

const Recipe& nvfp4() {
  static const Recipe recipe = [] {
    Recipe published = nvfp4_plain();
    published.name = "nvfp4";
    published.tensors[Role::gradient]->stochastic = true;
    published.wgrad_hadamard = 16;
    published.skip_last = 1;
    return published;
  }();
  return recipe;
}

std::span<const Recipe* const> all() {
  static const Recipe* const list[] = {&delayed(), &current(), &row(),   &block(), &mx(),
                                       &mxfp8(),   &mxfp6(),   &mxfp4(), &nvfp4(), &nvfp4_plain()};
  return list;
}

std::string names() {
  std::string text;
  for (const Recipe* recipe : all()) text += (text.empty() ? "" : ", ") + recipe->name;
  return text;
}

const Recipe* find(std::string_view name) {
  for (const Recipe* recipe : all()) {
    if (recipe->name == name) return recipe;
  }
  return nullptr;
}

}  // namespace recipes

}  // namespace binade::amp
