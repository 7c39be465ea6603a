#include "binade/ops/elementwise/activation.h"

#include "binade/backend/capabilities.h"
#include "binade/base/random.h"
#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

int64_t check_swiglu(const Tensor& x) {
  require_compute("swiglu", "x", x);
  if (x.rank() == 0 || x.size(-1) % 2 != 0) {
    fail("swiglu",
         {.argument = "x", .expected = "an even last axis (gate, then up)", .found = describe(x)});
  }
  return x.size(-1) / 2;
}

// swiglu(x), x being [rows, 2 * width].
class SwiGluRecompute final : public autograd::ResultRecompute {
 public:
  explicit SwiGluRecompute(const Tensor& x) : x_(x) {}

  Tensor compute(const Tensor& gradient) override {
    const Tensor& x = x_;
    const Shape shape{x.size(0), x.size(1) / 2};
    const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
    const auto& kernels = backend::of(x).activation;
    if (gradient.defined()) {
      const Tensor dx = overwritten_or_new(x);
      kernels.swiglu_backward({viewed(dense(gradient), shape), x, dx, y});
      early_.set(gradient, dx);
    } else {
      kernels.swiglu(x, y);
    }
    return y;
  }

  Tensor compute_from_matmul(const Tensor& a, const Tensor& b, const Tensor& gradient,
                             const Tensor& kept) override {
    const Tensor& x = x_;
    const Shape shape{x.size(0), x.size(1) / 2};
    const Tensor dx = overwritten_or_new(x);
    const Tensor y = kept.defined() ? kept : Tensor::empty(shape, x.dtype(), x.device());
    backend::of(x).matmul.matmul_swiglu_backward(
        a, b, {viewed(gradient, shape), x, dx, kept.defined() ? TensorView() : TensorView(y)});
    early_.set(gradient, dx);
    return y;
  }

  // The gradient of x.
  Tensor gradient(const Tensor& dy) {
    if (const std::optional<Tensor> early = early_.take(dy)) return *early;
    const Tensor& x = x_;
    const Tensor dx = Tensor::empty_like(x);
    backend::of(x).activation.swiglu_backward(
        {viewed(dense(dy), {x.size(0), x.size(1) / 2}), x, dx});
    return dx;
  }

 private:
  Saved x_;
  EarlyGradients<Tensor> early_;
};

// An activation of plain ops in f32 (f64 for f64), rounded once.
template <class F>
Tensor rounded_once(Op op, const Tensor& x, F f) {
  require_compute(name(op), "x", x);
  Composite call(op, {x});
  return call.result(cast(f(cast(call[0], accumulation_type(call[0]))), call[0].dtype()));
}

// With a zero derivative from the bounds on, as PyTorch's.
Tensor hard_gate(const Tensor& x) {
  const auto number = [&](double value) { return full({}, value, x.dtype(), x.device()); };
  return where(less_equal(x, -3), number(0),
               where(greater_equal(x, 3), number(1), (x + 3.0) / number(6)));
}

}  // namespace

Tensor elu(const Tensor& x, double alpha) {
  require_finite("elu", "alpha", alpha);
  return rounded_once(Op::elu, x, [alpha](const Tensor& wide) {
    const Tensor zero = full({}, 0, wide.dtype(), wide.device());
    const Tensor positive = greater(wide, zero);
    // exp of a large number would be infinite, and its gradient 0 * inf.
    return where(positive, wide, expm1(where(positive, zero, wide)) * alpha);
  });
}

Tensor mish(const Tensor& x) {
  return rounded_once(Op::mish, x, [](const Tensor& wide) { return wide * tanh(softplus(wide)); });
}

Tensor hardsigmoid(const Tensor& x) { return rounded_once(Op::hardsigmoid, x, hard_gate); }

// The product only between the bounds: 0 * -inf is not 0.
Tensor hardswish(const Tensor& x) {
  return rounded_once(Op::hardswish, x, [](const Tensor& wide) {
    const Tensor zero = full({}, 0, wide.dtype(), wide.device());
    const Tensor low = less_equal(wide, -3);
    return where(low, zero, wide * hard_gate(where(low, zero, wide)));
  });
}

Tensor swiglu(const Tensor& x) { return swiglu(x, {}); }

Tensor swiglu(const Tensor& x, const Tensor& given) {
  const int64_t width = check_swiglu(x);
  const Call call(Op::swiglu, {x});
  const int64_t rows = rows_of(x.shape()).rows;
  const Tensor in = viewed(dense(call[0]), {rows, 2 * width});
  if (given.defined()) {
    require_shape("swiglu", "given", given, {rows, width});
    require_device("swiglu", "given", given, in);
  }
  // Autocast may want another type than it was computed in.
  const bool is_given = given.defined() && given.dtype() == in.dtype();
  const Tensor y = is_given ? given : Tensor::empty({rows, width}, in.dtype(), in.device());
  if (!is_given) backend::of(in).activation.swiglu(in, y);
  Shape shape = x.shape();
  shape[x.rank() - 1] = width;
  const Tensor result = viewed(y, shape);
  const auto again = std::make_shared<SwiGluRecompute>(in);
  call.result(result, [again, full = x.shape()](const Tensor& dy, GradSlots dx) {
    dx[0].add(viewed(again->gradient(dy), full));
  });
  if (backend::capabilities(y.device()).recomputes_results) {
    again->keeps_result = !recomputes_results(y.device());
    offer_recompute(result, again);
  }
  return result;
}

Tensor swiglu_composite(const Tensor& x) {
  const int64_t width = check_swiglu(x);
  Composite call(Op::swiglu, {x});
  const Tensor wide = cast(call[0], accumulation_type(call[0]));
  const Tensor y = silu(slice(wide, -1, 0, width)) * slice(wide, -1, width, 2 * width);
  return call.result(cast(y, call[0].dtype()));
}

Tensor dropout(const Tensor& x, double p, bool training) {
  require_compute("dropout", "x", x);
  require_between("dropout", "p", p, 0, 1);
  if (!training || p == 0) return x;
  const Call call(Op::dropout, {x});
  const random::Key key = random::next_key();
  const auto apply = [p, key](const Tensor& in) {
    const Tensor source = dense(in);
    const Tensor y = Tensor::empty_like(source);
    backend::of(source).activation.dropout(source, p, key, y);
    return y;
  };
  return call.result(apply(call[0]),
                     [apply](const Tensor& dy, GradSlots dx) { dx[0].add(apply(dy)); });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  require_compute("prelu", "x", x);
  require_compute("prelu", "weight", weight);
  require_rank("prelu", "weight", weight, 1);
  const bool per_channel = weight.size(0) != 1;
  if (per_channel && (x.rank() < 2 || x.size(1) != weight.size(0))) {
    fail("prelu", {.argument = "weight",
                   .expected = "one element or one per channel of " + describe(x),
                   .found = describe(weight)});
  }
  Composite call(Op::prelu, {x, weight});
  Shape shape = Shape::filled(x.rank(), 1);
  if (per_channel) shape[1] = weight.size(0);
  const Tensor negative = call[0] * reshape(call[1], shape);
  return call.result(
      where(greater(call[0], full({}, 0, call[0].dtype(), x.device())), call[0], negative));
}

}  // namespace binade
