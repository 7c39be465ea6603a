#pragma once

#include "binade/backend/attention.h"
#include "binade/base/host_device.h"

// Gradients of scores, stored between the kernel that computes them for dk and the one that sums
// dq: writing and reading them costs less than the two matmuls that would recompute them.
namespace binade::backend::cuda::native {

// The gradients of `items` heads of keys from `first` on (batch and head in one index): for each
// head that reads them [keys, queries], rows `pitch` apart. Masked elements are not written.
template <class C>
struct StoredGradients {
  C* data;  // null: gradients are not stored
  int64_t first, items;
  int64_t pitch;

  // Row `key` of a head (batch and head in one index); `group` heads read each head of keys.
  BINADE_HD C* at(int64_t item, int group, int keys, int key) const {
    return data + ((item - first * group) * keys + key) * pitch;
  }
};

// dq of the heads whose gradients are stored.
void attention_query_gradients(const StoredGradients<float>& stored, const AttentionBackward& call);

}  // namespace binade::backend::cuda::native
