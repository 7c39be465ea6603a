#pragma once

#include "binade/tensor/tensor.h"

// The gradients of scores kept between the kernel that makes them for dk and the one that sums dq:
// writing and reading them costs less than two products more.
namespace binade::backend::cuda::own {

// Those of `items` heads of keys from `first` on (batch and head in one): for each head that reads
// them [keys, queries], rows `pitch` apart. Only what a query sees is written.
template <class C>
struct StoredGradients {
  C* data;  // null: they are not kept
  int64_t first, items;
  int64_t pitch;

  // Row `key` of a head (batch and head in one), `group` of which read a head of keys.
  BINADE_HD C* at(int64_t item, int group, int keys, int key) const {
    return data + ((item - first * group) * keys + key) * pitch;
  }
};

// dq of the heads whose gradients are there.
void attention_query_gradients(const StoredGradients<float>& stored, const TensorView& q,
                               const TensorView& k, double scale, bool causal,
                               const TensorView& dq);

}  // namespace binade::backend::cuda::own
