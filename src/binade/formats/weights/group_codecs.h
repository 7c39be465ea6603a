#pragma once

#include "binade/formats/weights/weight_format.h"

// The codecs of compressed-tensors' files, by that package's formulas. Not part of the public
// interface.
namespace binade::formats::weights {

extern const GroupCodec int4;   // pack-quantized, symmetric
extern const GroupCodec nvfp4;  // nvfp4-pack-quantized
extern const GroupCodec fp8;    // float-quantized, e4m3

}  // namespace binade::formats::weights
