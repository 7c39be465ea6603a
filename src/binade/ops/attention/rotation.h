#pragma once

#include "binade/backend/quantize.h"
#include "binade/tensor/tensor.h"

// A checked rotary embedding: what rope and the fused quantized ops share. Not part of the public
// interface.
namespace binade::ops {

// Tables, first position and number of rotated heads of x [batch, tokens, heads, dim].
struct Rotation {
  Tensor cosine, sine;
  int64_t start, rotated;
  bool inverse = false;

  // The arguments of rope(); fails if they do not fit each other.
  static Rotation of(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
                     int64_t rotated);

  Rotation inverted() const;
  // Rotates dense x into y, which may be x.
  void operator()(const Tensor& x, const Tensor& y) const;
  // The rotation as operands of a kernel that also quantizes.
  backend::RotatedHeads operands(const Tensor& x) const;
};

}  // namespace binade::ops
