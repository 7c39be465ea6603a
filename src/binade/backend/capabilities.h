#pragma once

#include <cstdint>

#include "binade/tensor/device.h"
#include "binade/tensor/dtype.h"

namespace binade::backend {

// What a kind of device offers and asks for. Code above the backend asks these questions instead of
// which device it runs on. The answers hold whether or not this build or machine has the device.
struct Capabilities {
  // The host reads and checks data in place. Elsewhere there is none (meta), or reading it waits.
  bool is_host_readable = false;
  // Kernels run behind the host, which goes on: results are read late, decisions made on the
  // device.
  bool is_asynchronous = false;
  // Small pieces of work leave most of the device idle: work is cut into few large ones.
  bool is_massively_parallel = false;
  // Matmuls take quantized matrices only if the reduction axis is contiguous, so that matrices read
  // along both axes are stored transposed, too.
  bool needs_transposed_quantized = false;
  // Kernels quantize to packed codes of any format (tensor/quantized.h), and matmuls take them.
  bool has_packed_codes = true;
  // The backward computes results of activations again, which costs less than the memory to keep
  // them (unless KeepResults says otherwise).
  bool recomputes_results = false;
  // Sorting and CTC have kernels. Elsewhere they run on the host.
  bool has_sequential_kernels = true;
  // Attention's kernels take windows and softcaps of any sequences.
  bool has_score_options = true;
  // The results for one sequence do not depend on the others of its batch, bit for bit.
  bool is_batch_invariant = true;
  // Ranks exchange tensors in the device's memory, by NCCL.
  bool has_collectives = false;
  // Steps can be captured once and replayed (graph.h).
  bool has_graphs = false;
  // Kernels may be faster if they add in any order (determinism.h).
  bool has_unordered_kernels = false;
  // Bytes that rows and addresses should be multiples of, for fast kernels.
  int64_t alignment = 1;
  // What autocast casts to by default.
  DType autocast_dtype = DType::bf16;
};

constexpr Capabilities capabilities(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return {.is_host_readable = true};
    case Device::Kind::cuda:
      return {.is_asynchronous = true,
              .is_massively_parallel = true,
              .needs_transposed_quantized = true,
              .has_packed_codes = false,
              .recomputes_results = true,
              .has_sequential_kernels = false,
              .has_score_options = false,
              .is_batch_invariant = false,
              .has_collectives = true,
              .has_graphs = true,
              .has_unordered_kernels = true,
              .alignment = 16,
              .autocast_dtype = DType::f16};
    case Device::Kind::meta:
      if (device != Device::meta_gpu()) break;
      // What decides about memory.
      return {.is_massively_parallel = true,
              .needs_transposed_quantized = true,
              .has_packed_codes = false,
              .recomputes_results = true,
              .has_score_options = false,
              .alignment = 16,
              .autocast_dtype = DType::f16};
  }
  return {};
}

}  // namespace binade::backend
