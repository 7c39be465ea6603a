#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/optim/master_weight.h"

namespace binade::optim {

// Elements that an entry of an optimizer's state has for `count` elements of its parameter, counted
// from the parameter's start or from a multiple of formats::dynamic_block: as many, or one per
// block for the scales of 8-bit moments.
int64_t state_elements(std::string_view entry, int64_t count);

// A parameter of an optimizer with the state that its updates keep.
struct Slot {
  Tensor parameter;
  DType dtype = DType::f32;  // the parameter's type and device when its state was made
  Device device;
  Part part;               // of its elements; all, unless processes share the update
  bool is_shared = false;  // master weight and state have the part's elements, [count]
  Tensor gradient;         // of the part; undefined: the parameter's own
  Tensor shard;            // the part's elements; undefined: in the parameter
  MasterWeight master;
  Tensor first, second, third;       // see backend::UpdateItem
  Tensor first_scale, second_scale;  // of 8-bit moments
  int64_t steps = 0;                 // updates so far, including the running one
  Tensor skipped;  // f32 [1], on a GPU that may skip steps: how many of `steps` it skipped
  Tensor hyper;    // of a captured step: f64 [8], see backend::UpdateControl

  // Whether other processes update all of it.
  bool is_elsewhere() const { return is_shared && part.count == 0; }
  Tensor used_gradient() const { return gradient.defined() ? gradient : parameter.grad(); }
  bool has_gradient() const { return used_gradient().defined(); }
  // The shape of a part: the parameter's if it is all of it.
  Shape part_shape() const { return is_shared ? Shape{part.count} : parameter.shape(); }
  // The part of `whole`, which is shaped as the parameter, or as an entry of the state.
  Tensor part_of(const Tensor& whole) const;
  Tensor part_of(std::string_view entry, const Tensor& whole) const;
  // The elements of the parameter that a step updates.
  Tensor own_elements() const { return shard.defined() ? shard : part_of(parameter); }
  // The tensor of an entry called "first", "second", "third", "first_scale" or "second_scale".
  Tensor& state(std::string_view entry);
  // All that exist, with their names; "master" among them if it is an f32 tensor.
  std::vector<std::pair<std::string, Tensor*>> named_state();
  // Takes master weight and state from whole tensors, which names start with `prefix`.
  void load(const StateDict& state, const std::string& prefix);
};

}  // namespace binade::optim
