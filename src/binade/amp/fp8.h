#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "binade/backend/quantize.h"
#include "binade/base/function_ref.h"
#include "binade/tensor/quantized.h"

// FP8 by recipe. A recipe says how scales are found; a module's products keep their scales and
// histories in an Fp8Linear; the quantization itself is the backend's.
namespace binade::amp {

enum class Fp8Scaling : uint8_t {
  delayed,  // one scale per tensor, from the amaxes of past steps
  current,  // one scale per tensor, from the tensor itself
  row,      // one scale per row of each operand
  block,    // activations 1x128, weights 128x128, power-of-two scales
  mx,       // groups of 32 along the summed axis, e8m0 scales
};

enum class Fp8Format : uint8_t {
  hybrid,  // e4m3 forward, e5m2 for gradients
  e4m3,    // e4m3 everywhere
};

struct Fp8Recipe {
  Fp8Scaling scaling = Fp8Scaling::delayed;
  Fp8Format format = Fp8Format::hybrid;
  // delayed
  int history = 1024;
  bool most_recent = false;  // take the newest amax rather than the largest of the history
  int margin = 0;
  // current and row
  bool power_of_two = false;
  double eps = 0;
  // Which of a linear's three products run in FP8; the others run in the autocast type.
  bool forward = true;
  bool dgrad = true;
  bool wgrad = true;
  // Forward products may sum in the tensor cores' own, shorter registers where that is faster.
  bool fast_accumulation = true;
  // Blocks of a model left out, counted from its ends, and module paths left out with all below
  // them.
  int64_t skip_first = 0;
  int64_t skip_last = 0;
  std::vector<std::string> exclude;

  // Fails on impossible numbers, naming them.
  void check() const;
};

std::string_view name(Fp8Scaling scaling);
Fp8Scaling parse_fp8_scaling(std::string_view text);

// What FP8 does on this thread: a recipe, with others for some module paths. Copied into recompute.
struct Fp8State {
  bool enabled = false;
  Fp8Recipe recipe;
  std::map<std::string, Fp8Recipe, std::less<>> overrides;  // the longest path that matches wins
};

const Fp8State& fp8_state();

// Linear layers on this thread run in FP8 while it lives. Guards nest.
class Fp8Autocast {
 public:
  explicit Fp8Autocast(const Fp8Recipe& recipe, bool enabled = true);
  explicit Fp8Autocast(Fp8State state);
  ~Fp8Autocast();
  Fp8Autocast(const Fp8Autocast&) = delete;
  Fp8Autocast& operator=(const Fp8Autocast&) = delete;

 private:
  std::shared_ptr<const Fp8State> previous_;
};

// The recipe for the module running now; null where it does not run in FP8.
const Fp8Recipe* fp8_recipe();

// The scale of one stream of tensors (inputs, weights or gradients of one module) under delayed
// scaling.
struct Fp8Stream {
  Tensor history;  // f32 [length], newest first
  Tensor scale;    // f32 [1]
  Tensor inverse;  // f32 [1]
  Tensor pending;  // f32 [1]: largest amax of the running step
  Tensor dropped;  // i32 [1]: amaxes that were not finite

  bool defined() const { return scale.defined(); }
  void create(int length, Device device);
};

// What one linear module keeps between calls. A change of the weight's data marks a new step:
// histories roll and the weight is quantized again. So accumulation, skipped steps and recompute
// need no calls.
class Fp8Linear {
 public:
  Fp8Stream input, weight, gradient;

  // Called at each forward: rolls histories if the weight changed since the last one.
  void begin(const Fp8Recipe& recipe, const Tensor& weight_tensor);
  // The weight as the forward (rows along `in`) or the dgrad product (transposed) takes it;
  // quantized once per step.
  const Quantized& weight_rows(const Fp8Recipe& recipe, const Tensor& weight_tensor);
  const Quantized& weight_columns(const Fp8Recipe& recipe, const Tensor& weight_tensor);

  // Rolls now if that is due, so that what is saved is what the next step starts from.
  void flush(const Tensor& weight_tensor);

 private:
  void forget_weight();

  std::shared_ptr<Storage> seen_storage_;  // of the weight, at the last forward
  uint64_t seen_version_ = 0;
  Fp8Recipe seen_recipe_;
  Quantized rows_, columns_;
};

// x [rows, columns] by the recipe, in e4m3 or (gradients of hybrid recipes) e5m2. `record` says
// that gradients follow: the amax of a delayed stream is noted. The codes come transposed as well
// where a backward product of the device reads them along x's rows.
enum class Fp8Role : uint8_t { activation, weight, gradient };
Quantized quantize_by(const Fp8Recipe& recipe, Fp8Role role, const Tensor& x, Fp8Stream& stream,
                      bool record);

// The same by a delayed recipe, of a matrix that nobody stores: `write` makes it and its codes in
// one pass.
Quantized quantize_fused(const Fp8Recipe& recipe, Fp8Role role, const Shape& shape, Device device,
                         Fp8Stream& stream, bool record,
                         FunctionRef<void(const backend::Codes&)> write);

// Whether matrices may be made and quantized in one pass under this recipe: their scales are known
// beforehand, no product takes them in another type, and nobody looks at what runs.
bool can_fuse_quantize(const Fp8Recipe& recipe);

// The group of elements that share a scale.
ScaleGroup scale_group(const Fp8Recipe& recipe, Fp8Role role);
DType fp8_type(const Fp8Recipe& recipe, Fp8Role role);

}  // namespace binade::amp
