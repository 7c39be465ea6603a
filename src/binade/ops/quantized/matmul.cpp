#include "binade/ops/quantized/matmul.h"

#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"

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

// Whether a code times the scale of its group is always exact in bf16.
bool fits_bf16(const QuantizedLayout& layout) {
  const auto significant = [](const formats::Format& format) { return format.mantissa_bits + 1; };
  return significant(layout.format) + significant(layout.scale) <= significant(formats::spec::bf16);
}

// Codes in bytes, which no matmul reads, times their scales. A tensor's scale of a second level
// stays beside the values, which are exact then if the codes have 4 bits.
ScaledMatrix dequantized(const Quantized& q) {
  const memory::CategoryGuard category(memory::Category::workspace);
  backend::QuantizedView groups(q);
  const bool beside = q.layout.outer == ScaleGroup{};
  if (beside) groups.outer_inv = {};
  const DType dtype = !groups.outer_inv.present && fits_bf16(q.layout) ? DType::bf16 : DType::f32;
  const Tensor values = Tensor::empty(q.shape, dtype, q.data.device());
  backend::of(values).quantize.dequantize(groups, values);
  return {values, beside ? q.outer_inv : Tensor()};
}

}  // namespace

ScaledMatrix rowwise(const Quantized& q) {
  // Where codes can be packed, also data in a type of their own whose values are exact in bf16:
  // others become f32.
  const bool has_exact_values = q.layout.scale == formats::spec::e8m0 &&
                                backend::capabilities(q.data.device()).has_packed_codes;
  if (q.data.dtype() == DType::u8 || has_exact_values) return dequantized(q);
  return {q.data, q.scale_inv, q.layout.group};
}

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
