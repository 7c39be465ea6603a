#include "binade/ops/fp8_products.h"

#include "binade/backend/backend.h"

namespace binade::ops {

Operand operand(const Quantized& q) { return {q.data, q.inverse_scale, q.group}; }

Operand operand_along_rows(const Quantized& q) {
  if (!q.transposed.defined()) return operand(q);
  return {transposed(q.transposed), q.inverse_scale};
}

Tensor transposed(const Tensor& matrix) {
  return matrix.strided({matrix.size(1), matrix.size(0)},
                        {matrix.strides()[1], matrix.strides()[0]}, matrix.offset());
}

Operand transposed(const Operand& x) { return {transposed(x.matrix), x.inverse_scale, x.group}; }

void multiply(const Operand& a, const Operand& b, const Tensor& y, bool accumulate,
              backend::Epilogue epilogue) {
  epilogue.beta = accumulate ? 1.0f : 0.0f;
  epilogue.scale_a = a.inverse_scale;
  epilogue.scale_b = b.inverse_scale;
  epilogue.group_a = a.group;
  epilogue.group_b = b.group;
  backend::of(y).matmul.matmul(batch_of_one(a.matrix), batch_of_one(b.matrix), batch_of_one(y),
                               epilogue);
}

Tensor batch_of_one(const Tensor& x) {
  return x.strided({1, x.size(0), x.size(1)}, {0, x.strides()[0], x.strides()[1]}, x.offset());
}

Quantized kept_for_wgrad(Quantized q) {
  if (q.transposed.defined()) q.data = {};
  return q;
}

}  // namespace binade::ops
