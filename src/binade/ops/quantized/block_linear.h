#pragma once

#include <memory>
#include <vector>

#include "binade/formats/blocks/block_format.h"
#include "binade/tensor/tensor.h"

namespace binade {

// Consecutive rows of a weight, in blocks of one format: u8 [rows, bytes of a row].
struct BlockPart {
  const formats::BlockFormat* format = nullptr;
  Tensor blocks;
};

// A weight [out, in] that stays in blocks of few bits, by its rows from the first on; nobody trains
// it.
struct BlockWeight {
  Shape shape;
  std::vector<BlockPart> parts;

  Device device() const { return parts.front().blocks.device(); }
  int64_t bytes() const;
};

// The values, decoded in f32 and rounded once.
Tensor dequantized(const BlockWeight& weight, DType dtype = DType::f32);

// linear(x, dequantized(weight, the type it computes in), bias), bit for bit on the CPU, also its
// gradients of x and bias. The weight is decoded panel by panel: the forward by rows, the backward
// by columns, into workspace of at most 2 MiB on a CPU (32 MiB on a GPU) or one block of columns.
Tensor block_linear(const Tensor& x, const std::shared_ptr<const BlockWeight>& weight,
                    const Tensor& bias = {});

}  // namespace binade
