#pragma once

#include "binade/formats/blocks/block_format.h"
#include "binade/tensor/tensor.h"

// Weights whose rows stay in blocks of few bits.
namespace binade::backend {

// Rows of one format: u8 [rows, bytes of a row], dense.
struct BlockRows {
  const formats::BlockFormat* format;
  TensorView blocks;
};

struct BlockRowKernels {
  // values [rows, columns] (f32, bf16 or f16, whose rows are dense and may be apart) = those of
  // each row from block `first` on; columns are whole blocks. CPUs decode as the format does, in
  // f32, and round once.
  void (*dequantize)(const BlockRows& rows, int64_t first, TensorView values);
};

// The kernels of a device; those of the meta device do nothing.
const BlockRowKernels& block_row_kernels(Device device);

namespace cpu {
extern const BlockRowKernels block_row_kernels;
}
namespace cuda {
extern const BlockRowKernels block_row_kernels;
}

}  // namespace binade::backend
