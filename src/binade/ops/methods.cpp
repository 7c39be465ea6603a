#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/libtorch_names.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/ops/shape/shape.h"

// The methods of tensor/methods.def.
namespace binade {

#define METHOD(result, name, parameters, arguments) \
  result Tensor::name parameters const { return binade::name arguments; }
#define WRITE(name, parameters, expression)     \
  const Tensor& Tensor::name parameters const { \
    expression;                                 \
    return *this;                               \
  }
#include "binade/tensor/methods.def"
#undef METHOD
#undef WRITE

}  // namespace binade
