#include "binade/ops/quantized/matmul.h"

#include "binade/backend/backend.h"

namespace binade::ops {
namespace {

void run(const ScaledMatrix& a, const ScaledMatrix& b, const TensorView& y,
         backend::Epilogue& epilogue) {
  epilogue.scale_a = a.scale_inv;
  epilogue.scale_b = b.scale_inv;
  epilogue.group_a = a.group;
  epilogue.group_b = b.group;
  backend::of(a.matrix).matmul.matmul(backend::batch_of_one(a.matrix),
                                      backend::batch_of_one(b.matrix), backend::batch_of_one(y),
                                      epilogue);
}

}  // namespace

ScaledMatrix rowwise(const Quantized& q) { return {q.data, q.scale_inv, q.group}; }

ScaledMatrix columnwise(const Quantized& q) {
  if (!q.transposed.defined()) return rowwise(q);
  return {transposed(q.transposed), q.scale_inv};
}

Tensor transposed(const Tensor& matrix) {
  return matrix.strided({matrix.size(1), matrix.size(0)},
                        {matrix.strides()[1], matrix.strides()[0]}, matrix.offset());
}

ScaledMatrix transposed(const ScaledMatrix& x) {
  return {transposed(x.matrix), x.scale_inv, x.group};
}

void quantized_matmul(const ScaledMatrix& a, const ScaledMatrix& b,
                      const autograd::GradSlot::Target& y, backend::Epilogue epilogue) {
  epilogue.beta = y.accumulate ? 1.0f : 0.0f;
  run(a, b, y.buffer, epilogue);
}

void quantized_matmul(const ScaledMatrix& a, const ScaledMatrix& b,
                      const backend::QuantizedOutput& y, backend::Epilogue epilogue) {
  epilogue.scale_y = y.scale;
  epilogue.amax_y = y.amax;
  run(a, b, y.data, epilogue);
}

Quantized without_rows(Quantized q) {
  if (q.transposed.defined()) q.data = {};
  return q;
}

}  // namespace binade::ops
