#include <algorithm>
#include <cmath>
#include <optional>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/amp/recipe/state.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/quantize_scale.h"
#include "binade/base/division.h"
#include "binade/ops/common.h"
#include "binade/ops/composed.h"
#include "binade/ops/loss/class_axis.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/quantized/matmul.h"

// The two fused losses: of logits, and of the linear layer that computes them.
namespace binade {
namespace {

using namespace ops;
using backend::batch_of_one;
using backend::Binary;

void check(Op op, const Tensor& x, const Tensor& target, int64_t classes,
           const CrossEntropyOptions& options) {
  require_index(name(op), "target", target);
  Shape expected = x.shape();
  expected.erase(expected.rank() - 1);
  require_shape(name(op), "target", target, expected);
  require_device(name(op), "target", target, x);
  require_between(name(op), "smoothing", options.smoothing, 0, 1);
  if (classes == 0) fail(name(op), {.argument = "classes", .expected = "at least 1", .found = "0"});
}

// Some of a tensor's rows.
Tensor part(const Tensor& t, int64_t start, int64_t count) {
  Shape shape = t.shape();
  shape[0] = count;
  return t.strided(shape, t.strides(), t.offset() + start * t.strides()[0]);
}

// Fast matmuls in `dtype` may need every side to be a multiple of some bytes: then an odd
// vocabulary is padded with rows of zeros. No loss reads their logits, so the gradients of these
// are zero.
Tensor with_aligned_rows(const Tensor& weight, DType dtype) {
  const int64_t classes = weight.size(0);
  const int64_t alignment = backend::capabilities(weight.device()).alignment;
  const int64_t rows =
      round_up(classes, std::max<int64_t>(alignment / static_cast<int64_t>(size_of(dtype)), 1));
  if (rows == classes) return weight;
  const Tensor result = Tensor::empty({rows, weight.size(1)}, weight.dtype(), weight.device());
  const auto& elementwise = backend::of(weight).elementwise;
  elementwise.copy(weight, part(result, 0, classes));
  elementwise.fill(part(result, classes, rows - classes), 0);
  return result;
}

// The factor of every row's loss in the result: one element of the losses' type, on the device.
Tensor row_weight(const Tensor& target, const CrossEntropyOptions& options, DType dtype) {
  Tensor weight = Tensor::empty({1}, DType::f32, target.device());
  const auto& kernels = backend::of(target);
  if (options.reduce != Reduce::mean) {
    kernels.elementwise.fill(weight, 1);
    return weight;
  }
  kernels.loss.count_targets(target, options.ignore_index, weight);
  weight = converted(weight, dtype);  // a count is exact, its reciprocal is not
  kernels.elementwise.unary(backend::Unary::reciprocal, {}, weight, weight);
  return weight;
}

// A row weight for gradients: 1 rather than infinity if no target counts, because the gradients it
// multiplies are zeros then. The loss itself is NaN, as in PyTorch.
Tensor finite_weight(const Tensor& weight) {
  const Tensor y = Tensor::empty_like(weight);
  backend::of(weight).elementwise.unary(backend::Unary::clamp, {0, 1}, weight, y);
  return y;
}

Tensor total(const Tensor& losses, const Tensor& weight) {
  const Tensor sum = Tensor::empty({1}, losses.dtype(), losses.device());
  backend::of(losses).reduce.reduce(backend::Reduction::sum, losses, {sum});
  backend::of(losses).elementwise.binary(Binary::mul, sum, weight, sum);
  return viewed(sum, {});
}

// a * b, where b expands to a's shape.
Tensor scaled(const Tensor& a, const Tensor& b, DType dtype) {
  const Tensor y = Tensor::empty(a.shape(), dtype, a.device());
  backend::of(a).elementwise.binary(Binary::mul, a, TensorView(b).expanded(a.shape()), y);
  return y;
}

// The factors of rows, times one element, for a tensor of this shape.
Tensor row_factors(const Tensor& factors, const Tensor& element, Shape shape) {
  shape[shape.rank() - 1] = 1;
  return viewed(scaled(factors, element, factors.dtype()), shape);
}

// Adds a * factor to a gradient; the first is written where it stays.
void add_scaled(const GradSlot& slot, const Tensor& a, const Tensor& factor) {
  if (!slot.needs_grad()) return;
  const GradSlot::Target target = slot.target();
  const auto& elementwise = backend::of(a).elementwise;
  const TensorView factors = TensorView(factor).expanded(a.shape());
  if (!target.accumulate) return elementwise.binary(Binary::mul, a, factors, target.buffer);
  elementwise.binary(Binary::add, target.buffer, scaled(a, factor, a.dtype()), target.buffer);
}

void check_linear(const Tensor& x, const Tensor& weight, const CrossEntropyOptions& options) {
  require_compute("linear_cross_entropy", "x", x);
  require_compute("linear_cross_entropy", "weight", weight);
  require_rank("linear_cross_entropy", "weight", weight, 2);
  if (x.rank() == 0 || x.size(-1) != weight.size(1)) {
    fail("linear_cross_entropy", {.argument = "x",
                                  .expected = "[..., " + std::to_string(weight.size(1)) + "]",
                                  .found = describe(x)});
  }
  if (options.weight.defined()) {
    fail("linear_cross_entropy", {.argument = "options.weight",
                                  .expected = "none",
                                  .found = describe(options.weight),
                                  .hint = "use cross_entropy(linear(x, weight), target)"});
  }
  if (options.class_axis && *options.class_axis != -1) {
    fail("linear_cross_entropy", {.argument = "options.class_axis",
                                  .expected = "-1, the axis of the layer's results",
                                  .found = std::to_string(*options.class_axis)});
  }
  if (options.reduce == Reduce::none) {
    fail("linear_cross_entropy", {.argument = "reduce",
                                  .expected = "mean or sum",
                                  .found = "none",
                                  .hint = "use cross_entropy(linear(x, weight), target)"});
  }
}

// The operands of a head's quantized matmuls.
struct QuantizedHead {
  bool fast_accumulation;
  Quantized x, weight;
  // Gradients of logits are at most 1 for a row weight of 1, so their scale is a constant.
  DType gradient_type;
  Tensor scale, scale_inv;
  Tensor transposed;  // memory for a chunk's gradients, if matmuls of the device read it

  struct Needed {
    bool dx, dweight;
  };

  QuantizedHead(const amp::Recipe& recipe, const Tensor& x_values, const Tensor& weight_values,
                Needed needed)
      : fast_accumulation(recipe.fast_accumulation),
        gradient_type(stored_type(recipe[amp::Role::head_gradient].format)) {
    const Device device = x_values.device();
    const bool transposes = backend::capabilities(device).needs_transposed_quantized;
    amp::ScaleStream none;  // of delayed scales alone
    x = amp::Quantizer{recipe[amp::Role::head_input], none, false, transposes && needed.dweight}
            .quantize(x_values);
    weight = amp::Quantizer{recipe[amp::Role::head_weight], none, false, transposes && needed.dx}
                 .quantize(weight_values);
    scale = Tensor::empty({1}, DType::f32, device);
    scale_inv = Tensor::empty({1, 1}, DType::f32, device);
    const double largest = std::ldexp(1.0, backend::max_exponent_of(gradient_type));
    backend::of(device).elementwise.fill(scale, largest);
    backend::of(device).elementwise.fill(scale_inv, 1 / largest);
  }

  // The gradients of a chunk, in the memory of its logits.
  Quantized gradients(const Tensor& logits) const {
    const int64_t rows = logits.size(0), columns = logits.size(1);
    const auto pitch = static_cast<int64_t>(size_of(logits.dtype())) * columns;
    Quantized result = quantized_of(
        Tensor::of_storage(logits.storage(), {rows, columns}, {pitch, 1}, gradient_type),
        scale_inv);
    if (transposed.defined()) result.transposed = transposed.strided({columns, rows}, {rows, 1}, 0);
    return result;
  }

  // The rows of x of a chunk, as wgrad reads them.
  ScaledMatrix x_columns(int64_t start, int64_t count) const {
    if (!x.transposed.defined()) return {part(x.data, start, count), x.scale_inv};
    const Tensor& all = x.transposed;
    return {all.strided({count, all.size(0)}, {1, all.strides()[0]}, all.offset() + start),
            x.scale_inv};
  }
};

// x weight^T and its cross entropy, some rows at a time; the logits of a chunk become their own
// gradient. Gradients are computed for a row weight of 1 and scaled in the backward: in 16 bits
// they are then of the size of probabilities, and do not underflow before the loss scale is
// applied.
struct ChunkedHead {
  Tensor x, weight, target;  // the weight may have more rows than there are classes
  int64_t classes;
  CrossEntropyOptions options;
  Tensor losses;       // [rows]
  Tensor dx, dweight;  // undefined if not needed
  std::optional<QuantizedHead> quantized = {};
  Tensor factors = {};  // [rows]: of the rows of dx; undefined if all are 1
  Tensor lse = {}, logits = {};
  bool tf32 = amp::matmul_precision() == amp::MatmulPrecision::high;

  void run(int64_t chunk_rows) {
    const int64_t rows = x.size(0);
    const int64_t chunk = std::clamp<int64_t>(chunk_rows, 1, std::max<int64_t>(rows, 1));
    lse = Tensor::empty({chunk}, losses.dtype(), x.device());
    logits = new_logits(chunk, x.dtype());
    if (quantized && dweight.defined() &&
        backend::capabilities(x.device()).needs_transposed_quantized)
      quantized->transposed = new_logits(chunk, quantized->gradient_type);
    if (dweight.defined() && rows == 0) backend::of(x).elementwise.fill(dweight, 0);
    if (fuses(0, std::min(chunk, rows))) factors = Tensor::empty({rows}, DType::f32, x.device());
    for (int64_t start = 0; start < rows; start += chunk)
      run_chunk(start, std::min(chunk, rows - start));
  }

 private:
  Tensor new_logits(int64_t rows, DType dtype) const {
    const memory::CategoryGuard category(memory::Category::logits);
    return Tensor::empty({rows, weight.size(0)}, dtype, x.device());
  }

  bool needs_gradients() const { return dx.defined() || dweight.defined(); }

  backend::CrossEntropyForward loss_of(int64_t start, int64_t count) const {
    return {.logits = logits.strided({count, classes}, logits.strides(), logits.offset()),
            .target = part(target, start, count),
            .smoothing = options.smoothing,
            .ignore_index = options.ignore_index,
            .losses = part(losses, start, count),
            .lse = part(lse, 0, count)};
  }

  // The factors of a chunk's rows.
  Tensor factors_of(int64_t start, int64_t count) const {
    return viewed(part(factors, start, count), {count, 1});
  }

  backend::LinearCrossEntropy fused(int64_t start, int64_t count) const {
    return {.x = part(x, start, count),
            .weight = weight,
            .loss = loss_of(start, count),
            .factors = factors.defined() ? TensorView(factors_of(start, count)) : TensorView()};
  }
  bool fuses(int64_t start, int64_t count) const {
    return !quantized && needs_gradients() &&
           backend::fuses_cross_entropy(fused(start, count), x.device());
  }

  void run_chunk(int64_t start, int64_t count) const {
    const auto& kernels = backend::of(x);
    const Tensor in = part(x, start, count), out = part(logits, 0, count);
    if (factors.defined() && fuses(start, count)) {
      kernels.matmul.matmul_cross_entropy(fused(start, count));
      return multiply(out, scaled(in, factors_of(start, count), in.dtype()), start);
    }
    if (factors.defined()) kernels.elementwise.fill(factors_of(start, count), 1);
    if (quantized) {
      quantized_matmul(rowwise(quantized_rows(quantized->x, start, count)),
                       transposed(rowwise(quantized->weight)), {out, false},
                       {.fast_accumulation = quantized->fast_accumulation});
    } else {
      kernels.matmul.matmul(batch_of_one(in), backend::transposed(batch_of_one(weight)),
                            batch_of_one(out), {.tf32 = tf32});
    }
    if (!needs_gradients()) return kernels.loss.cross_entropy(loss_of(start, count));
    if (quantized) return quantized_gradients(out, start);
    kernels.loss.cross_entropy_to_gradient(loss_of(start, count));
    multiply(out, in, start);
  }

  // The gradients of a chunk, from those of its logits and its rows of x.
  void multiply(const Tensor& dlogits, const Tensor& in, int64_t start) const {
    const auto& kernels = backend::of(x).matmul;
    if (dx.defined())
      kernels.matmul(batch_of_one(dlogits), batch_of_one(weight),
                     batch_of_one(part(dx, start, dlogits.size(0))), {.tf32 = tf32});
    if (dweight.defined())
      kernels.matmul(backend::transposed(batch_of_one(dlogits)), batch_of_one(in),
                     batch_of_one(dweight), {.beta = start == 0 ? 0.0f : 1.0f, .tf32 = tf32});
  }

  void quantized_gradients(const Tensor& chunk_logits, int64_t start) const {
    const int64_t count = chunk_logits.size(0);
    const Quantized gradients = quantized->gradients(chunk_logits);
    backend::CrossEntropyForward args = loss_of(start, count);
    args.quantized = {
        .scale = quantized->scale, .data = gradients.data, .transposed = gradients.transposed};
    backend::of(x).loss.cross_entropy_to_gradient(args);
    if (dx.defined())
      quantized_matmul(rowwise(gradients), columnwise(quantized->weight),
                       {part(dx, start, count), false});
    if (dweight.defined())
      quantized_matmul(transposed(columnwise(gradients)), quantized->x_columns(start, count),
                       {dweight, start > 0});
  }
};

// The loss of logits whose classes are another axis than the last one.
Tensor with_classes_last(const Tensor& logits, const Tensor& target,
                         const CrossEntropyOptions& options, int axis) {
  CrossEntropyOptions last = options;
  last.class_axis = -1;
  const bool has_probabilities =
      is_floating(target.dtype()) && target.shape() == logits.shape();  // else it is refused there
  return cross_entropy(movedim(logits, axis, -1),
                       has_probabilities ? movedim(target, axis, -1) : target, last);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options) {
  require_compute("cross_entropy", "logits", logits);
  if (logits.rank() == 0)
    fail("cross_entropy",
         {.argument = "logits", .expected = "[..., classes]", .found = describe(logits)});
  const int classes_at = class_axis("cross_entropy", logits, target, options.class_axis);
  if (classes_at != logits.rank() - 1)
    return with_classes_last(logits, target, options, classes_at);
  if (is_floating(target.dtype())) return cross_entropy_composite(logits, target, options);
  check(Op::cross_entropy, logits, target, logits.size(-1), options);
  if (options.weight.defined()) return cross_entropy_composite(logits, target, options);
  const Call call(Op::cross_entropy, {logits});
  const auto [rows, classes] = rows_of(logits.shape());
  const Tensor in = viewed(dense(call[0]), {rows, classes});
  const Tensor targets = viewed(dense(target), {rows});
  require_classes("cross_entropy", targets, classes, options.ignore_index);
  const Tensor losses = Tensor::empty({rows}, accumulation_type(in), in.device()),
               lse = Tensor::empty_like(losses);
  backend::of(in).loss.cross_entropy({.logits = in,
                                      .target = targets,
                                      .smoothing = options.smoothing,
                                      .ignore_index = options.ignore_index,
                                      .losses = losses,
                                      .lse = lse});
  const Tensor weight = row_weight(targets, options, losses.dtype());
  const bool per_row_losses = options.reduce == Reduce::none;
  const Tensor y = per_row_losses ? viewed(losses, target.shape()) : total(losses, weight);
  return call.result(y, [=, in = Saved(in), full = logits.shape()](const Tensor& dy, GradSlots dx) {
    // One gradient per row: the given ones, or that of the reduction times the row weight.
    const Tensor spread = viewed(dense(dy), {dy.numel()});
    const Tensor dlosses = scaled(spread, weight, lse.dtype());
    const Tensor per_row =
        dlosses.strided({in->size(0)}, {per_row_losses ? 1 : 0}, dlosses.offset());
    const Tensor gradient = Tensor::empty_like(in.get());
    backend::of(dy).loss.cross_entropy_backward({.dlosses = dense(per_row),
                                                 .logits = in,
                                                 .target = targets,
                                                 .lse = lse,
                                                 .smoothing = options.smoothing,
                                                 .ignore_index = options.ignore_index,
                                                 .dlogits = gradient});
    dx[0].add(viewed(gradient, full));
  });
}

namespace {

// Rows of logits for which a chunk is worth its cost. On a CPU these stay in or near its cache. On
// a GPU each chunk reads and writes the f32 gradient of the weight, as long as a matmul of about
// 200 rows takes.
int64_t fitting_rows(const HeadSize& head, Device device) {
  const auto logit_bytes = static_cast<int64_t>(size_of(head.dtype));
  const backend::Capabilities able = backend::capabilities(device);
  const int64_t row_bytes =
      head.classes * (logit_bytes + (head.quantized && able.needs_transposed_quantized ? 1 : 0));
  if (!able.is_massively_parallel) return std::max<int64_t>((int64_t{64} << 20) / row_bytes, 1);
  // A layer has about 12 width^2 weights: a head of more than four layers is a large part of a
  // step, and its chunks are long. The step of a smaller head hardly notices the 5% of 4096 rows.
  constexpr int64_t least_rows = 4096;
  if (head.classes > 4 * 12 * head.width)
    return std::max<int64_t>((int64_t{2048} << 20) / row_bytes, 1);
  // So much that the quantized head of Llama 1.3B takes less than the backward of the last block.
  return std::max<int64_t>((int64_t{384} << 20) / row_bytes, least_rows);
}

}  // namespace

int64_t logits_rows(int64_t rows, const HeadSize& head, Device device) {
  const int64_t fitting = fitting_rows(head, device);
  if (rows <= fitting) return std::max<int64_t>(rows, 1);
  // Chunks of equal size, in whole tiles if possible: a short last one would not fill a GPU.
  constexpr int64_t tile = 1024, gpu_tile = 128;
  const int64_t fewest = divide_up(rows, fitting);
  if (backend::capabilities(device).is_massively_parallel)
    return round_up(divide_up(rows, fewest), gpu_tile);
  for (int64_t chunks = fewest; chunks <= 2 * fewest; ++chunks) {
    if (rows % (chunks * tile) == 0) return rows / chunks;
  }
  return divide_up(rows, fewest);
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const CrossEntropyOptions& options, int64_t chunk_rows) {
  check_linear(x, weight, options);
  check(Op::linear_cross_entropy, x, target, weight.size(0), options);
  const Call call(Op::linear_cross_entropy, {x, weight});
  require_same_dtype("linear_cross_entropy", call[0], call[1]);
  const auto [rows, width] = rows_of(x.shape());
  const Tensor targets = viewed(dense(target), {rows});
  require_classes("linear_cross_entropy", targets, weight.size(0), options.ignore_index);

  const amp::Recipe* recipe = call[0].dtype() == DType::f64 ? nullptr : amp::current_head_recipe();
  const DType matmul_type = recipe != nullptr ? DType::e4m3 : call[1].dtype();
  ChunkedHead head{.x = viewed(dense(call[0]), {rows, width}),
                   .weight = with_aligned_rows(call[1], matmul_type),
                   .target = targets,
                   .classes = weight.size(0),
                   .options = options};
  head.losses = Tensor::empty({rows}, accumulation_type(head.x), head.x.device());
  if (call.recording() && x.requires_grad()) head.dx = Tensor::empty_like(head.x);
  if (call.recording() && weight.requires_grad())
    head.dweight = Tensor::empty(head.weight.shape(), accumulation_type(head.x), head.x.device());
  if (recipe != nullptr)
    head.quantized.emplace(
        *recipe, head.x, head.weight,
        QuantizedHead::Needed{.dx = head.dx.defined(), .dweight = head.dweight.defined()});
  const HeadSize size{.classes = weight.size(0),
                      .width = width,
                      .dtype = head.x.dtype(),
                      .quantized = recipe != nullptr};
  head.run(chunk_rows > 0 ? chunk_rows : logits_rows(rows, size, x.device()));

  const Tensor row = row_weight(targets, options, head.losses.dtype());
  return call.result(
      total(head.losses, row),
      [row, dx_unit = head.dx, dweight_unit = head.dweight, factors = head.factors,
       full = x.shape(), classes = head.classes](const Tensor& dy, GradSlots dx) {
        const Tensor factor = scaled(viewed(dy, {1}), finite_weight(row), dy.dtype());
        if (dx_unit.defined())
          add_scaled(dx[0], viewed(dx_unit, full),
                     factors.defined() ? row_factors(factors, factor, full) : factor);
        if (dweight_unit.defined()) add_scaled(dx[1], part(dweight_unit, 0, classes), factor);
      });
}

Tensor linear_cross_entropy_composite(const Tensor& x, const Tensor& weight, const Tensor& target,
                                      const CrossEntropyOptions& options) {
  CrossEntropyOptions last = options;
  last.class_axis = -1;
  return cross_entropy(linear(x, weight), target, last);
}

}  // namespace binade
