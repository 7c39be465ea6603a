#include "binade/ops/quantized/block_linear.h"

#include <algorithm>

#include "binade/autograd/op_observer.h"
#include "binade/backend/block_rows.h"
#include "binade/backend/capabilities.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;
using backend::batch_of_one;

// Bytes of a panel. On a GPU large enough that a matmul fills it.
constexpr int64_t panel_bytes = int64_t{2} << 20, gpu_panel_bytes = int64_t{32} << 20;

// Rows or columns [begin, end).
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// A view of some rows (axis 0) or columns of a matrix, without an op.
Tensor view_of(const Tensor& x, int axis, Range range) {
  Shape shape = x.shape();
  shape[axis] = range.size();
  return x.strided(shape, x.strides(), x.offset() + range.begin * x.strides()[axis]);
}

// Columns that are whole blocks in every part.
int64_t block_columns(const BlockWeight& weight) {
  int64_t columns = 1;
  for (const BlockPart& part : weight.parts) columns = std::max(columns, part.format->elements);
  return columns;  // all are powers of two
}

int64_t panel_elements(Device device, DType dtype) {
  const bool is_gpu = backend::capabilities(device).is_massively_parallel;
  return (is_gpu ? gpu_panel_bytes : panel_bytes) / static_cast<int64_t>(size_of(dtype));
}

Tensor decoded(const BlockWeight& weight, Range rows, Range columns, DType dtype) {
  const memory::CategoryGuard category(memory::Category::workspace);
  const Tensor panel = Tensor::empty({rows.size(), columns.size()}, dtype, weight.device());
  const auto& kernels = backend::block_row_kernels(weight.device());
  int64_t first = 0;  // row of the part
  for (const BlockPart& part : weight.parts) {
    const int64_t end = first + part.blocks.size(0);
    const int64_t from = std::max(first, rows.begin), to = std::min(end, rows.end);
    if (from < to)
      kernels.dequantize(
          {.format = part.format, .blocks = view_of(part.blocks, 0, {from - first, to - first})},
          columns.begin / part.format->elements,
          view_of(panel, 0, {from - rows.begin, to - rows.begin}));
    first = end;
  }
  return panel;
}

// Calls use(range) for ranges of `step` or less that cover [0, size).
template <class Use>
void for_each_range(int64_t size, int64_t step, const Use& use) {
  for (int64_t begin = 0; begin < size; begin += step)
    use(Range{begin, std::min(size, begin + step)});
}

// Each output is a sum over all columns in either form, so its bits are those of one matmul.
void multiply(const Tensor& x, const BlockWeight& weight, const Tensor& bias, const Tensor& y,
              bool tf32) {
  const Range columns{0, weight.shape[1]};
  const int64_t step = std::max<int64_t>(1, panel_elements(x.device(), x.dtype()) / columns.end);
  for_each_range(weight.shape[0], step, [&](Range rows) {
    const Tensor panel = decoded(weight, rows, columns, x.dtype());
    const Tensor part = bias.defined() ? view_of(bias, 0, rows) : Tensor();
    backend::of(x).matmul.matmul(batch_of_one(x), backend::transposed(batch_of_one(panel)),
                                 batch_of_one(view_of(y, 1, rows)), {.bias = part, .tf32 = tf32});
  });
}

// dx = dy weight, or is added to it.
void multiply_back(const Tensor& dy, const BlockWeight& weight, const GradSlot::Target& dx,
                   bool tf32) {
  const Range rows{0, weight.shape[0]};
  const int64_t unit = block_columns(weight);
  const int64_t step =
      std::max(unit, panel_elements(dy.device(), dy.dtype()) / rows.end / unit * unit);
  const Tensor flat = viewed(dx.buffer, {dy.size(0), weight.shape[1]});
  for_each_range(weight.shape[1], step, [&](Range columns) {
    const Tensor panel = decoded(weight, rows, columns, dy.dtype());
    backend::of(dy).matmul.matmul(batch_of_one(dy), batch_of_one(panel),
                                  batch_of_one(view_of(flat, 1, columns)),
                                  {.beta = dx.accumulate ? 1.0f : 0.0f, .tf32 = tf32});
  });
}

// What observers of ops see in place of a weight: all of it for those that read values, else a
// tensor of its shape and type without memory of its own.
Tensor weight_to_show(const BlockWeight& weight, DType dtype) {
  const Device device = weight.device();
  if (autograd::op_observer() != nullptr && !device.is_meta()) return dequantized(weight, dtype);
  return Tensor::empty({1}, dtype, device).strided(weight.shape, {0, 0}, 0);
}

void check(const Tensor& x, const BlockWeight& weight, const Tensor& bias) {
  require_compute("linear", "x", x);
  if (x.rank() == 0 || x.size(-1) != weight.shape[1] || x.dtype() == DType::f64)
    fail("linear", {.argument = "x",
                    .expected = "[..., " + std::to_string(weight.shape[1]) +
                                "] of f32, bf16 or f16 for a weight in blocks",
                    .found = describe(x)});
  if (bias.defined()) require_shape("linear", "bias", bias, {weight.shape[0]});
}

}  // namespace

int64_t BlockWeight::bytes() const {
  int64_t bytes = 0;
  for (const BlockPart& part : parts) bytes += part.blocks.bytes();
  return bytes;
}

Tensor dequantized(const BlockWeight& weight, DType dtype) {
  return decoded(weight, {0, weight.shape[0]}, {0, weight.shape[1]}, dtype);
}

Tensor block_linear(const Tensor& x, const std::shared_ptr<const BlockWeight>& weight,
                    const Tensor& bias) {
  check(x, *weight, bias);
  const DType dtype = amp::input_type(Op::linear, {&x, 1}).value_or(x.dtype());
  const Call call(Op::linear, {x, weight_to_show(*weight, dtype), bias});
  const int64_t rows = rows_of(x.shape()).rows, out = weight->shape[0];
  const Tensor flat = viewed(dense(call[0]), {rows, weight->shape[1]});
  const Tensor y = Tensor::empty({rows, out}, flat.dtype(), flat.device());
  const bool tf32 = amp::matmul_precision() == amp::MatmulPrecision::high;
  multiply(flat, *weight, dense(call[2]), y, tf32);
  Shape shape = x.shape();
  shape[x.rank() - 1] = out;
  const Tensor result = viewed(y, shape);
  return call.result(result, [=](const Tensor& given, GradSlots dx) {
    const Tensor dy = viewed(dense(given), {rows, out});
    if (dx[2].needs_grad()) add_reduced(dx[2], dy);
    if (dx[0].needs_grad()) multiply_back(dy, *weight, dx[0].target(), tf32);
  });
}

}  // namespace binade
