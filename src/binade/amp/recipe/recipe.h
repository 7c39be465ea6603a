#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "binade/formats/format.h"
#include "binade/tensor/device.h"
#include "binade/tensor/quantized.h"

// Low-precision training by recipe. A recipe is a value that says how each tensor of a linear layer
// is quantized and which matmuls run on quantized operands; everything else asks it. text.h has its
// text form.
namespace binade::amp {

// Scales from the amaxes of past steps, known before a tensor is computed.
struct Delayed {
  int history = 16;     // steps
  bool newest = false;  // use the newest amax instead of the largest of the history
  int margin = 0;       // scale = (max / amax) / 2^margin
  bool operator==(const Delayed&) const = default;
};
// Scales from the tensor itself.
struct Current {
  bool operator==(const Current&) const = default;
};
// The largest power of two of the format, for values that lie in [-1, 1].
struct Constant {
  bool operator==(const Constant&) const = default;
};
using ScaleSource = std::variant<Current, Delayed, Constant>;

// How a scale follows from the largest magnitude of its group.
enum class ScaleRule : uint8_t {
  largest,       // max / amax
  power_of_two,  // the same, rounded down to a power of two
  mx_floor,      // OCP MX: 2^(max exponent - floor(log2(amax)))
  mx_ceil,       // the same with ceil(log2(amax))
  mx_round_up,   // max / amax, rounded down to a power of two in e8m0 (NVIDIA)
  nvfp4,         // in few bits, relative to a scale of the tensor in f32 (Transformer Engine)
};

// The rules by the names they have in texts.
inline constexpr std::pair<ScaleRule, std::string_view> rule_names[] = {
    {ScaleRule::largest, "largest"},         {ScaleRule::power_of_two, "power_of_two"},
    {ScaleRule::mx_floor, "mx_floor"},       {ScaleRule::mx_ceil, "mx_ceil"},
    {ScaleRule::mx_round_up, "mx_round_up"}, {ScaleRule::nvfp4, "nvfp4"}};
std::string_view name(ScaleRule rule);
// Whether scales are powers of two of groups of 32, as in OCP MX.
bool is_mx(ScaleRule rule);
// The rule called `name`, if there is one.
std::optional<ScaleRule> find_rule(std::string_view name);

// Bounds that no model reaches.
inline constexpr int64_t max_group = int64_t{1} << 40, max_blocks = int64_t{1} << 20;

// How one tensor is quantized; finite values saturate.
struct TensorRecipe {
  formats::Format format = formats::spec::e4m3;
  ScaleGroup group = {};                       // one scale per tensor by default
  formats::Format scale = formats::spec::f32;  // of the scales
  ScaleRule rule = ScaleRule::largest;
  double eps = 0;  // lower bound of amax
  ScaleSource source = Current{};
  // To nearest even, or stochastically with random numbers that are a function of seed, step, layer
  // and element.
  bool stochastic = false;
  // With the rule nvfp4: each group's largest number becomes 6 or 4, whichever is nearer to the
  // group's values (Four Over Six).
  bool four_over_six = false;

  bool is_delayed() const { return std::holds_alternative<Delayed>(source); }
  const Delayed& delayed() const { return std::get<Delayed>(source); }
  // Whether one scale serves the whole tensor, so that its data can be read along either axis.
  bool is_per_tensor() const { return group == ScaleGroup{}; }
  // How the quantized tensor is stored.
  QuantizedLayout layout() const;
  bool operator==(const TensorRecipe&) const = default;
};

// Fails, naming the field, unless a tensor can be quantized by this recipe with scales from its own
// values.
void check_current(const TensorRecipe& recipe);

// What a tensor is to its layer. `hidden` is the result of a linear layer that SwiGLU alone reads;
// the last three belong to the LM head (linear_cross_entropy).
enum class Role : uint8_t {
  input,
  weight,
  gradient,
  hidden,
  head_input,
  head_weight,
  head_gradient,
};
inline constexpr Role all_roles[] = {Role::input,        Role::weight,     Role::gradient,
                                     Role::hidden,       Role::head_input, Role::head_weight,
                                     Role::head_gradient};
// Those of a linear layer, which keeps scales for them.
inline constexpr std::span<const Role> layer_roles{all_roles, 4};

std::string_view name(Role role);

// A value per role.
template <class T>
class RoleMap {
 public:
  T& operator[](Role role) { return values_[static_cast<size_t>(role)]; }
  const T& operator[](Role role) const { return values_[static_cast<size_t>(role)]; }
  bool operator==(const RoleMap&) const = default;

 private:
  std::array<T, std::size(all_roles)> values_{};
};

// Which of a linear layer's three matmuls run on quantized operands; the others run in the autocast
// type.
struct Matmuls {
  bool forward = true;
  bool dgrad = true;
  bool wgrad = true;

  bool all() const { return forward && dgrad && wgrad; }
  bool any() const { return forward || dgrad || wgrad; }
  bool operator==(const Matmuls&) const = default;
};

struct Recipe {
  std::string name;
  RoleMap<std::optional<TensorRecipe>> tensors;  // none: stays in the autocast type
  Matmuls matmuls;
  // Forward matmuls may accumulate in the tensor cores' shorter registers, which is faster.
  bool fast_accumulation = true;
  // The operands of wgrad are multiplied by a Hadamard matrix along the reduction axis, in runs of
  // this many elements, before they are quantized; 0: not. Its signs are Transformer Engine's, or
  // drawn for each step and layer.
  int wgrad_hadamard = 0;
  bool random_signs = false;
  // The fraction of a run's steps after which no matmul is quantized.
  double until = 1;
  // Blocks that are not quantized, counted from the model's ends, and module paths that are not,
  // with all modules below them.
  int64_t skip_first = 0;
  int64_t skip_last = 0;
  std::vector<std::string> exclude;

  // The recipe of a role that has one.
  const TensorRecipe& operator[](Role role) const { return tensors[role].value(); }
  // Whether SwiGLU's input is stored in the format of Role::hidden instead of the autocast type:
  // half the memory, and a rounding more. Only if all matmuls are quantized.
  bool stores_hidden() const { return tensors[Role::hidden].has_value() && matmuls.all(); }
  // Whether the LM head is quantized, too. Only if all matmuls are.
  bool has_head() const { return tensors[Role::head_input].has_value() && matmuls.all(); }
  // Whether quantization draws random numbers.
  bool is_random() const;
  // Whether the scales of all operands are known before the operands are.
  bool is_delayed() const;
  // Whether every operand has one scale.
  bool is_per_tensor() const;

  // Adds or removes the roles of the LM head: a scale per tensor from the values themselves, in the
  // formats of the layers' operands, and a constant scale for the gradients of logits.
  void set_head(bool on);
  // Adds or removes Role::hidden: e4m3 with delayed scales that are powers of two.
  void set_hidden(bool on);

  // Fails, naming the field, if a number is out of range or fields do not go together.
  void check() const;
  // Fails, naming the field, if the device has no kernels for a part.
  void check_device(Device device) const;

  bool operator==(const Recipe&) const = default;
};

// The built-in recipes.
namespace recipes {

const Recipe&
delayed();  // one scale per tensor, from the amaxes of past steps (Transformer Engine)
const Recipe& current();  // one scale per tensor, from the tensor itself
const Recipe& row();      // one scale per row of each operand
const Recipe& block();    // activations 1x128, weights 128x128, powers of two (DeepSeek-V3)
const Recipe& mx();       // groups of 32 along the reduction axis, e8m0 scales (OCP MX)
const Recipe& mxfp8();    // the same in e4m3 with scales that are rounded up (NVIDIA's MXFP8)
const Recipe& mxfp6();    // OCP MX in 6 bits: e2m3, gradients e3m2
const Recipe& mxfp4();    // OCP MX in 4 bits
// 4 bits in groups of 16 along the reduction axis, of weights 16x16: e4m3 scales of groups and an
// f32 scale of the tensor. As published for pretraining (arXiv 2509.25149): gradients rounded
// stochastically, Hadamard transforms in wgrad, the last block in the autocast type.
const Recipe& nvfp4();
const Recipe& nvfp4_plain();  // the same rounded to nearest, without transforms, in all blocks

std::span<const Recipe* const> all();
// Their names, for messages: "delayed, current, ...".
std::string names();
// The one called `name`, or null.
const Recipe* find(std::string_view name);

}  // namespace recipes

}  // namespace binade::amp
