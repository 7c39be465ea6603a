#pragma once

#include <optional>

#include "binade/tensor/tensor.h"

namespace binade {

// Along one axis; the maximum is subtracted first, and sums are f32. Under autocast the result is
// f32 unless `dtype` names another type.
Tensor softmax(const Tensor& x, int64_t axis = -1, std::optional<DType> dtype = {});
Tensor log_softmax(const Tensor& x, int64_t axis = -1, std::optional<DType> dtype = {});
// log(sum(exp(x))) along an axis.
Tensor logsumexp(const Tensor& x, int64_t axis = -1, bool keep = false);

}  // namespace binade
