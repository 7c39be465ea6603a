#pragma once

#include "binade/amp/recipe/recipe.h"
#include "binade/tensor/device.h"

// Not part of the public interface.
namespace binade::amp {

// How a linear layer is used.
struct LayerUse {
  Device device = Device::cpu();
  // Data that can be computed again in the backward is, to save memory; see KeepResults.
  bool recomputes_results = false;
  // SwiGLU alone reads the result, which has no activation.
  bool feeds_swiglu = false;
};

// What a linear layer does under a recipe on a device: derived here and asked everywhere else.
struct LayerFacts {
  // All matmuls are quantized with scales that are known beforehand, so that kernels may quantize
  // what they compute.
  bool can_fuse = false;
  // The forward quantizes the input: a matmul reads it along its rows, or its data serve both axes.
  bool quantizes_input = false;
  // Operands whose data serve both axes. Others are quantized a second time, along the other axis.
  RoleMap<bool> serves_both_axes;
  // Operands whose data are written transposed, too. GPUs multiply quantized matrices only if the
  // reduction axis is contiguous: dgrad reduces along the weight's columns, wgrad along those of
  // inputs and gradients.
  RoleMap<bool> transposes;
  // The backward quantizes the weight, and inputs whose values are kept anyway, again.
  bool requantizes = false;
  // The forward's data of the weight need not outlive it: the backward quantizes the weight again,
  // or reads the transposed data alone.
  bool drops_weight_rows = false;
  // The result is stored in the format of Role::hidden.
  bool stores_result = false;
};

// Fails if the device cannot run the recipe.
LayerFacts facts_of(const Recipe& recipe, const LayerUse& use);

}  // namespace binade::amp
