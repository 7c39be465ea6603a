#pragma once

#include <vector>

#include "binade/nn/module.h"

namespace binade::optim {

// Elements [begin, begin + count) of a parameter.
struct Part {
  int64_t begin = 0, count = 0;
};

// Options every optimizer has.
struct MasterOptions {
  bool masters = true;  // f32 master weights for 16-bit parameters
  // Stores the master weight of a bf16 parameter as that parameter and 16 bits beside it
  // (formats/split_f32.h): 2 bytes less for each element. Updates and state_dict() are those of f32
  // master weights, but a master weight midway between two bf16 numbers is rounded to the one of
  // larger magnitude, and one whose parameter is written keeps its lower bits: it differs from the
  // written number by at most half a unit in the parameter's last place.
  bool split_masters = false;
  bool stochastic_rounding = false;  // of updated 16-bit parameters without master weights
  uint64_t seed = 0;                 // of stochastic rounding
  // The elements of each parameter, in the order of all groups, that this process updates; others
  // update the rest (ranks/sharded.h). Master weights and moments exist for these alone. Empty:
  // all.
  std::vector<Part> parts = {};
};

// The numbers that updates of a parameter change, in one of three forms: f32 beside a 16-bit
// parameter; the lower half of each, of which a bf16 parameter is the upper half; or none, and the
// parameter itself is updated. `elements` are those of the parameter that this process updates.
class MasterWeight {
 public:
  MasterWeight() = default;  // none
  // In the form that the options choose for the parameter's type.
  MasterWeight(const Tensor& parameter, const Tensor& elements, const MasterOptions& options);

  bool is_f32() const { return f32_.defined(); }
  bool is_split() const { return rest_.defined(); }
  Tensor& f32() { return f32_; }
  const Tensor& f32() const { return f32_; }
  const Tensor& rest() const { return rest_; }  // see backend::UpdateItem

  // Makes an f32 master weight follow a parameter that was written since the last step: weights
  // loaded after the optimizer was created, for example. A split one follows by itself.
  void follow(const Tensor& parameter, const Tensor& elements);
  // The parameter is the rounded master weight now.
  void note_version(const Tensor& parameter) { version_ = parameter.version(); }

  // What an update starts from: f32, or the elements themselves. A copy if it is split.
  Tensor read(const Tensor& elements) const;
  // Writes the result of an update by plain ops, and the elements rounded from it.
  void write(const Tensor& value, const Tensor& elements) const;

 private:
  Tensor f32_, rest_;
  uint64_t version_ = 0;  // of the parameter when it was last rounded from the f32 master weight
};

struct Slot;
// Splits `whole`, which is shaped as the slot's parameter, into all of the parameter, so that it is
// the same in every process, and the rest of the slot's part.
void load_split_master(const Slot& slot, const Tensor& whole);

}  // namespace binade::optim
