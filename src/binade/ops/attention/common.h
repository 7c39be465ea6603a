#pragma once

#include <optional>
#include <vector>

#include "binade/backend/attention.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/common.h"

// Shared by the attention ops and nn/language_model.cpp. Not part of the public interface.
namespace binade::ops {

void check_options(const char* op, const AttentionOptions& options);
void check_offsets(const char* op, const char* argument, const std::vector<int64_t>& offsets,
                   int64_t rows);
// Packed sequences have no common score matrix that a mask could have the shape of.
void refuse_mask(const char* op, const AttentionOptions& options);
void refuse_documents(const char* op, const AttentionOptions& options);

// The kernels know neither masks nor dropout, some neither windows nor caps. A window that no query
// reaches the end of is none.
bool needs_composite(const AttentionOptions& options, int64_t keys, Device device);
double scale_of(const AttentionOptions& options, int64_t dim);
bool matmuls_in_tf32();
// x, or a dense copy if its last axis has gaps.
Tensor unit_last_stride(const Tensor& x);

// Computes the gradient of a packed buffer, and its sums if the op behind `slot` needs them and the
// device can compute them along.
void packed_backward(backend::AttentionBackward args, const Tensor& dqkv, const GradSlot& slot);

struct HeadCounts {
  int64_t heads, kv_heads, dim;
};

// Attention by plain ops.
using AttendByOps = Tensor (*)(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionOptions& options);
// scaled_dot_product_attention_composite() of some queries at a time; arguments are checked. The
// backward computes a chunk's scores again, so that memory grows with the number of keys, not with
// its square. Keys that no query of a chunk sees are not read.
Tensor chunked_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionOptions& options);
// packed_attention() and varlen_attention() with the attention of each sequence by `attend`.
Tensor packed_attention_by(AttendByOps attend, const Tensor& qkv, const HeadCounts& counts,
                           const AttentionOptions& options);
Tensor varlen_attention_by(AttendByOps attend, const Tensor& q, const Tensor& k, const Tensor& v,
                           const SequenceOffsets& offsets, const AttentionOptions& options);

// Documents as kernels attend within them.
struct DeviceDocuments {
  Tensor bounds = {};  // undefined: each has `length` rows
  int64_t length = 0, window = 0;

  backend::DocumentRows rows() const { return {bounds, length, window}; }
};
// The documents of packed_attention; none if qkv's device has no kernels for them, or if other
// kernels take its sequences: whole ones of full tiles without a window.
std::optional<DeviceDocuments> device_documents(const Tensor& qkv, int64_t dim,
                                                const AttentionOptions& options);
// packed_attention of several documents; arguments are checked.
Tensor packed_documents(const Tensor& qkv, const HeadCounts& counts,
                        const AttentionOptions& options,
                        const std::optional<DeviceDocuments>& on_device);

}  // namespace binade::ops
