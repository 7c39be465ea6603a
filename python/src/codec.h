#pragma once

#include <string>

#include "binade/formats/format.h"
#include "binade/tensor/tensor.h"

// Any format by name at run time: arrays of numbers to arrays of codes and back.
namespace binade::python {

struct EncodeOptions {
  formats::Rounding rounding = formats::Rounding::nearest_even;
  formats::Overflow overflow = formats::Overflow::saturate;
  uint64_t seed = 0;  // of stochastic rounding; element i draws the same bits on every machine
};

// One format's conversions of `n` elements; codes take 1, 2 or 4 bytes.
struct Codec {
  const formats::Format* format;
  DType dtype;  // of a tensor of codes: the format's own if there is one, else u8 or f32
  void (*encode)(const float* x, void* codes, int64_t begin, int64_t end, const EncodeOptions&);
  void (*decode)(const void* codes, float* x, int64_t begin, int64_t end);
};

// Fails for an unknown name and lists the known ones.
const Codec& codec(const std::string& name);

// x is dense f32 on the CPU. Codes have x's shape.
Tensor encode(const Tensor& x, const Codec& codec, const EncodeOptions& options);
Tensor decode(const Tensor& codes, const Codec& codec);

}  // namespace binade::python
