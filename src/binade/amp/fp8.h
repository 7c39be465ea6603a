#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "binade/base/restore.h"
#include "binade/tensor/dtype.h"

// FP8 by recipe: linear layers under an Fp8Autocast guard run their matmuls in FP8.
namespace binade::amp {

enum class Fp8Scaling : uint8_t {
  delayed,  // one scale per tensor, from the amaxes of past steps
  current,  // one scale per tensor, from the tensor itself
  row,      // one scale per row of each operand
  block,    // activations 1x128, weights 128x128, power-of-two scales
  mx,       // groups of 32 along the reduction axis, e8m0 scales
};

enum class Fp8Format : uint8_t {
  hybrid,  // e4m3 forward, e5m2 for gradients
  e4m3,    // e4m3 everywhere
};

struct Fp8Recipe {
  Fp8Scaling scaling = Fp8Scaling::delayed;
  Fp8Format format = Fp8Format::hybrid;
  // Of delayed scaling.
  int history = 1024;        // steps
  bool most_recent = false;  // use the newest amax instead of the largest of the history
  int margin = 0;            // scale = (max / amax) / 2^margin
  // Of current and row scaling.
  bool power_of_two = false;  // round scales down to a power of two
  double eps = 0;             // lower bound of amax
  // Which of a linear's three matmuls run in FP8; the others run in the autocast type.
  bool forward = true;
  bool dgrad = true;
  bool wgrad = true;
  // Forward matmuls may accumulate in the tensor cores' shorter registers, which is faster.
  bool fast_accumulation = true;
  // linear_cross_entropy, the LM head of language models, runs in FP8 too: with scales per tensor
  // from the values themselves, whatever `scaling` says, and a constant scale for the gradients of
  // logits, which lie in [-1, 1]. Needs all three matmuls in FP8.
  bool head = false;
  // SwiGLU's input, the gate and up projections, is stored in e4m3 instead of the autocast type:
  // half the memory, and a rounding more. Under delayed scaling, with all three
  // matmuls in FP8; without effect otherwise.
  bool hidden = false;
  // Blocks that run without FP8, counted from the model's ends, and module paths that do, with all
  // modules below them.
  int64_t skip_first = 0;
  int64_t skip_last = 0;
  std::vector<std::string> exclude;

  // Fails if a number is out of range.
  void check() const;

  bool operator==(const Fp8Recipe&) const = default;
};

// What a tensor is to its layer: recipes choose formats and scales by it.
enum class Fp8Role : uint8_t { activation, weight, gradient };
DType fp8_type(const Fp8Recipe& recipe, Fp8Role role);

std::string_view name(Fp8Scaling scaling);
Fp8Scaling parse_fp8_scaling(std::string_view text);

// A thread's FP8 state: a recipe, with others for some module paths. Recompute runs with the state
// of its forward.
struct Fp8State {
  bool enabled = false;
  Fp8Recipe recipe = {};
  std::map<std::string, Fp8Recipe, std::less<>> overrides = {};  // the longest matching path wins
};

const Fp8State& fp8_state();

// For its lifetime, linear layers of this thread run in FP8. Guards nest.
class Fp8Autocast {
 public:
  explicit Fp8Autocast(const Fp8Recipe& recipe);
  explicit Fp8Autocast(Fp8State state);

 private:
  Restore<std::shared_ptr<const Fp8State>> state_;
};

// The recipe of the current module; null if it runs without FP8.
const Fp8Recipe* fp8_recipe();
// The same for an LM head; null if the recipe leaves heads out.
const Fp8Recipe* fp8_head_recipe();
// Whether the recipe's `hidden` has an effect.
bool stores_hidden(const Fp8Recipe& recipe);

}  // namespace binade::amp
