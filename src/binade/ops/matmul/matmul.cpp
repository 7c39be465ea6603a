#include "binade/ops/matmul/matmul.h"

#include "binade/ops/common.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"

namespace binade {
namespace {

using namespace ops;

Tensor transposed(const Tensor& x) {
  return x.strided({x.shape()[0], x.shape()[2], x.shape()[1]},
                   {x.strides()[0], x.strides()[2], x.strides()[1]}, x.offset());
}

// y [batch, m, n] = a x b, or y += a x b if `accumulate`.
void multiply(const Tensor& a, const Tensor& b, const Tensor& y, bool accumulate, bool tf32) {
  backend::of(y).matmul.matmul(a, b, y, {.beta = accumulate ? 1.0f : 0.0f, .tf32 = tf32});
}

// x [..., r, c] expanded to `batch` and reshaped to [count, r, c]: a view if one stride can step
// through the batch, else a copy.
Tensor batched(const Tensor& x, const Shape& batch) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  Shape full = batch;
  full.push_back(rows);
  full.push_back(columns);
  const TensorView view = TensorView(x).expanded(full);
  int64_t step = 0, expected = 0;
  bool regular = true;
  for (int axis = batch.rank() - 1; axis >= 0; --axis) {
    if (batch[axis] == 1) continue;
    if (step == 0 && expected == 0 && view.strides[axis] != 0) {
      step = expected = view.strides[axis];
    } else if (view.strides[axis] != expected) {
      regular = false;
    }
    if (step == 0 && view.strides[axis] == 0) {
      // All inner axes repeat x, so every outer axis must as well.
      for (int outer = axis - 1; outer >= 0; --outer)
        regular &= batch[outer] == 1 || view.strides[outer] == 0;
      break;
    }
    expected *= batch[axis];
  }
  const Strides& in = x.strides();
  const int rank = x.rank();
  if (regular)
    return x.strided({batch.numel(), rows, columns}, {step, in[rank - 2], in[rank - 1]},
                     x.offset());
  return viewed(dense(x.strided(full, view.strides, x.offset())), {batch.numel(), rows, columns});
}

// Adds a x b to an operand's gradient, summed over the batch axes along which it was expanded.
void add_gradient(const GradSlot& slot, const Tensor& a, const Tensor& b, const Shape& batch,
                  const Shape& operand, bool tf32) {
  if (!slot.needs_grad()) return;
  const int64_t rows = a.shape()[1], columns = b.shape()[2];
  if (operand.numel() == batch.numel() * rows * columns) {
    const auto [buffer, accumulate] = slot.target();
    multiply(a, b, viewed(buffer, {batch.numel(), rows, columns}), accumulate, tf32);
    return;
  }
  const Tensor gradient =
      Tensor::empty({batch.numel(), rows, columns}, accumulation_type(a), a.device());
  multiply(a, b, gradient, false, tf32);
  Shape full = batch;
  full.push_back(rows);
  full.push_back(columns);
  const auto [buffer, accumulate] = slot.target();
  Shape kept = operand;
  while (kept.rank() < full.rank()) kept.insert(0, 1);
  backend::of(a).reduce.reduce(backend::Reduction::sum, viewed(gradient, full),
                               {viewed(buffer, kept), accumulate});
}

void require_operands(std::string_view op, const Tensor& a, const Tensor& b) {
  require_compute(op, "a", a);
  require_compute(op, "b", b);
  if (a.rank() == 0 || b.rank() == 0) {
    fail(op, {.argument = "operands",
              .expected = "at least 1 dimension each",
              .found = describe(a) + " and " + describe(b)});
  }
  const int64_t inner = b.rank() == 1 ? b.size(0) : b.size(-2);
  if (a.size(-1) != inner) {
    fail(op, {.argument = "operands",
              .expected = "a's last size equal to b's " +
                          std::string(b.rank() == 1 ? "only" : "second to last"),
              .found = describe(a) + " and " + describe(b)});
  }
}

// All public functions call this one. Vectors become matrices. If b is one matrix, all leading axes
// of a become rows, so that no operand is expanded.
Tensor multiplied(Op op, const Tensor& a_given, const Tensor& b_given) {
  require_operands(name(op), a_given, b_given);
  const Call call(op, {a_given, b_given});
  const Tensor& a = call[0];
  const Tensor& b = call[1];
  require_same_dtype(name(op), a, b);
  const bool tf32 = amp::matmul_precision() == amp::MatmulPrecision::high;

  const Tensor a2 = a.rank() == 1 ? a.strided({1, a.size(0)}, {0, a.strides()[0]}, a.offset()) : a;
  const Tensor b2 = b.rank() == 1 ? b.strided({b.size(0), 1}, {b.strides()[0], 0}, b.offset()) : b;
  const int64_t k = a2.size(-1), n = b2.size(-1);
  Shape shape = broadcast(name(op).data(), batch_of(a2), batch_of(b2));
  Shape batch = shape;
  Tensor left, right;
  const Shape left_shape = a2.shape(), right_shape = b2.shape();
  if (b2.rank() == 2 && a2.rank() > 2) {
    const int64_t rows = shape.numel() * a2.size(-2);
    left = viewed(dense(a2), {1, rows, k});
    right = b2.strided({1, k, n}, {0, b2.strides()[0], b2.strides()[1]}, b2.offset());
    batch = {1};
  } else {
    left = batched(a2, batch);
    right = batched(b2, batch);
  }
  if (a.rank() > 1) shape.push_back(a2.size(-2));
  if (b.rank() > 1) shape.push_back(n);

  const Tensor y = Tensor::empty({left.shape()[0], left.shape()[1], n}, a.dtype(), a.device());
  multiply(left, right, y, false, tf32);
  return call.result(viewed(y, shape), [=, left = Saved(left), right = Saved(right),
                                        full = y.shape()](const Tensor& dy, GradSlots dx) {
    const Tensor gradient = viewed(dense(dy), full);
    add_gradient(dx[0], gradient, transposed(right), batch, left_shape, tf32);
    add_gradient(dx[1], transposed(left), gradient, batch, right_shape, tf32);
  });
}

void require_batches(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.size(0) == b.size(0)) return;
  fail(op, {.argument = "operands",
            .expected = "one batch size",
            .found = describe(a) + " and " + describe(b)});
}

// beta * c + alpha * a b for matrices (addmm) or batches of them (baddbmm).
Tensor added(Op op, const Tensor& c, const Tensor& a, const Tensor& b, double beta, double alpha) {
  const int rank = op == Op::baddbmm ? 3 : 2;
  require_compute(name(op), "c", c);
  require_rank(name(op), "a", a, rank);
  require_rank(name(op), "b", b, rank);
  require_operands(name(op), a, b);
  if (rank == 3) require_batches(name(op), a, b);
  require_finite(name(op), "beta", beta);
  require_finite(name(op), "alpha", alpha);
  Shape shape = a.shape();
  shape[rank - 1] = b.size(-1);
  if (broadcast(name(op).data(), c.shape(), shape) != shape) {
    fail(name(op), {.argument = "c",
                    .expected = "a shape that broadcasts to " + to_string(shape),
                    .found = describe(c)});
  }
  Composite call(op, {c, a, b});
  require_same_dtype(name(op), call[1], call[2]);
  const Tensor scaled = mul(rank == 3 ? bmm(call[1], call[2]) : mm(call[1], call[2]), alpha);
  // beta = 0 ignores c, even if it holds NaN.
  return call.result(beta == 0 ? scaled : mul(call[0], beta) + scaled);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) { return multiplied(Op::matmul, a, b); }

Tensor mm(const Tensor& a, const Tensor& b) {
  require_rank("mm", "a", a, 2);
  require_rank("mm", "b", b, 2);
  return multiplied(Op::mm, a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  require_rank("bmm", "a", a, 3);
  require_rank("bmm", "b", b, 3);
  require_batches("bmm", a, b);
  return multiplied(Op::bmm, a, b);
}

Tensor mv(const Tensor& a, const Tensor& b) {
  require_rank("mv", "a", a, 2);
  require_rank("mv", "b", b, 1);
  return multiplied(Op::mv, a, b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  require_rank("dot", "a", a, 1);
  require_rank("dot", "b", b, 1);
  return multiplied(Op::dot, a, b);
}

Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return added(Op::addmm, c, a, b, beta, alpha);
}

Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return added(Op::baddbmm, c, a, b, beta, alpha);
}

}  // namespace binade
