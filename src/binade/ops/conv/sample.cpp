#include "binade/ops/conv/sample.h"

#include <algorithm>
#include <cmath>

#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

void check(Op op, const Tensor& x, int64_t height, int64_t width) {
  require_compute(name(op), "x", x);
  require_rank(name(op), "x", x, 4);
  if (height < 1 || width < 1 || x.size(2) < 1 || x.size(3) < 1) {
    fail(name(op),
         {.argument = "size",
          .expected = "at least 1 x 1",
          .found = std::to_string(height) + " x " + std::to_string(width) + " for " + describe(x)});
  }
}

// The index of the nearest of `in` pixels at or below each of `out`.
Tensor nearest_index(int64_t in, int64_t out, Device device) {
  const Tensor index = Tensor::empty({out}, DType::i64);
  auto* const pixels = index.mutable_data<int64_t>();
  for (int64_t i = 0; i < out; ++i) pixels[i] = i * in / out;
  return to(index, device);
}

// The weights of the two pixels around each position: [out, in].
Tensor bilinear_weights(int64_t in, int64_t out, DType dtype, Device device) {
  std::vector<double> weights(static_cast<size_t>(in * out), 0);
  for (int64_t i = 0; i < out; ++i) {
    const double position = std::max(
        0.0,
        (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5);
    const auto low = static_cast<int64_t>(position);  // below in
    const int64_t high = std::min(low + 1, in - 1);
    const double part = position - static_cast<double>(low);
    weights[static_cast<size_t>(i * in + low)] += 1 - part;
    weights[static_cast<size_t>(i * in + high)] += part;
  }
  return tensor(weights, {out, in}, dtype, device);
}

}  // namespace

Tensor upsample_nearest2d(const Tensor& x, int64_t height, int64_t width) {
  check(Op::upsample_nearest2d, x, height, width);
  Composite call(Op::upsample_nearest2d, {x});
  const Tensor rows = index_select(call[0], 2, nearest_index(x.size(2), height, x.device()));
  return call.result(index_select(rows, 3, nearest_index(x.size(3), width, x.device())));
}

Tensor upsample_bilinear2d(const Tensor& x, int64_t height, int64_t width) {
  check(Op::upsample_bilinear2d, x, height, width);
  Composite call(Op::upsample_bilinear2d, {x});
  const Tensor across = bilinear_weights(x.size(3), width, call[0].dtype(), x.device());
  const Tensor down = bilinear_weights(x.size(2), height, call[0].dtype(), x.device());
  return call.result(matmul(down, matmul(call[0], transpose(across, 0, 1))));
}

Tensor grid_sampler(const Tensor& x, const Tensor& grid) {
  check(Op::grid_sampler, x, 1, 1);
  require_compute("grid_sampler", "grid", grid);
  require_rank("grid_sampler", "grid", grid, 4);
  require_shape("grid_sampler", "grid", grid, {x.size(0), grid.size(1), grid.size(2), 2});
  Composite call(Op::grid_sampler, {x, grid});
  const int64_t n = x.size(0), c = x.size(1), positions = grid.size(1) * grid.size(2);
  const int64_t sizes[2] = {x.size(3), x.size(2)};  // x, then y, as the grid has them
  const Tensor flat = reshape(call[0], {n, c, sizes[0] * sizes[1]});
  Tensor low[2], part[2];
  for (int i = 0; i < 2; ++i) {
    const auto size = static_cast<double>(sizes[i]);
    const Tensor position =
        mul(reshape(select(call[1], 3, i), {n, 1, positions}), size / 2) + (size - 1) / 2;
    low[i] = floor(position).detach();
    part[i] = position - low[i];
  }
  Tensor y;
  for (int corner = 0; corner < 4; ++corner) {
    Tensor weight, index;
    for (int i = 1; i >= 0; --i) {
      const bool upper = (corner >> i & 1) != 0;
      const Tensor at = upper ? low[i] + 1.0 : low[i];
      const Tensor inside = clamp(at, 0, static_cast<double>(sizes[i] - 1));
      const Tensor blend = where(eq(at, inside), upper ? part[i] : mul(part[i], -1) + 1.0,
                                 full({}, 0, at.dtype(), x.device()));
      weight = weight.defined() ? weight * blend : blend;
      const Tensor pixel = cast(inside, DType::i64);
      index = index.defined()
                  ? index * full({}, static_cast<double>(sizes[0]), DType::i64, x.device()) + pixel
                  : pixel;
    }
    const Tensor term = gather(flat, 2, contiguous(expand(index, {n, c, positions}))) * weight;
    y = y.defined() ? y + term : term;
  }
  return call.result(reshape(y, {n, c, grid.size(1), grid.size(2)}));
}

}  // namespace binade
