#include "binade/ops/elementwise/arithmetic.h"

#include <array>

#include "binade/backend/capabilities.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/in_place.h"
#include "binade/ops/reduce/reduce.h"

namespace binade {
namespace {

using namespace ops;
using backend::Binary;
using backend::Unary;

// bool, integers, floats: as in PyTorch a scalar tensor widens the other operand's type only if its
// kind is wider.
int kind_of(DType type) {
  if (type == DType::boolean) return 0;
  return is_floating(type) ? 2 : 1;
}

DType result_type(const Tensor& a, const Tensor& b) {
  const bool same_kind = kind_of(a.dtype()) == kind_of(b.dtype());
  if (same_kind && a.rank() == 0 && b.rank() > 0) return b.dtype();
  if (same_kind && b.rank() == 0 && a.rank() > 0) return a.dtype();
  return promote(a.dtype(), b.dtype());
}

Tensor compute(Binary op, const Tensor& a, const Tensor& b, DType dtype) {
  const Shape shape = broadcast("elementwise", a.shape(), b.shape());
  Tensor y = Tensor::empty(shape, dtype, a.device());
  backend::of(a).elementwise.binary(op, TensorView(a).expanded(shape),
                                    TensorView(b).expanded(shape), y);
  return y;
}

// Quotients and angles of integers are f32: they may have a fraction.
DType result_type(Binary op, const Tensor& a, const Tensor& b) {
  const DType type = result_type(a, b);
  const bool leaves_integers = op == Binary::div || op == Binary::atan2;
  return leaves_integers && !is_floating(type) ? DType::f32 : type;
}

Tensor compute(Binary op, const Tensor& a, const Tensor& b) {
  return compute(op, a, b, result_type(op, a, b));
}

Tensor compute(Unary op, const Tensor& x, backend::UnaryParams params = {}) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend::of(x).elementwise.unary(op, params, x, y);
  return y;
}

Tensor scaled(const Tensor& x, double factor) { return compute(Unary::scale, x, {factor, 0}); }

void check_operands(Op op, const Tensor& a, const Tensor& b) {
  require_defined(name(op), "a", a);
  require_defined(name(op), "b", b);
  for (const Tensor* x : {&a, &b}) {
    if (is_quantized(x->dtype())) {
      fail(name(op), {.argument = "operands",
                      .expected = "a type of 16 bits or more",
                      .found = describe(*x),
                      .hint = "quantized data means nothing without its scale: dequantize it"});
    }
  }
  broadcast(name(op).data(), a.shape(), b.shape());
}

void check_ternary(Op op, const Tensor& a, const Tensor& b, const Tensor& c) {
  for (const auto& [argument, x] : {std::pair("a", &a), std::pair("b", &b), std::pair("c", &c)})
    require_compute(name(op), argument, *x);
  broadcast(name(op).data(), a.shape(), broadcast(name(op).data(), b.shape(), c.shape()));
}

// y = op(a, b) with `backward(dy, a, b, dx)`.
template <class F>
Tensor binary(Op op, Binary kernel, const Tensor& a, const Tensor& b, F backward) {
  check_operands(op, a, b);
  const Call call(op, {a, b});
  const Tensor y = compute(kernel, call[0], call[1]);
  return call.result(
      y, [backward, a = Saved(call[0]), b = Saved(call[1])](const Tensor& dy, GradSlots dx) {
        backward(dy, a.get(), b.get(), dx);
      });
}

Tensor comparison(Op op, Binary kernel, const Tensor& a, const Tensor& b) {
  check_operands(op, a, b);
  const Call call(op, {a, b});
  return call.result(compute(kernel, call[0], call[1], DType::boolean));
}

// 0 in a tensor's type and on its device.
Tensor zero(const Tensor& like) {
  const Tensor result = Tensor::empty({}, like.dtype(), like.device());
  backend::of(like).elementwise.fill(result, 0);
  return result;
}

// x with 0 in place of the elements for which `condition` holds. A choice rather than a product,
// which would make NaN of infinities.
Tensor zero_where(const Tensor& condition, const Tensor& x) {
  const Tensor y = Tensor::empty_like(x);
  backend::of(x).elementwise.where(TensorView(condition).expanded(x.shape()),
                                   TensorView(zero(x)).expanded(x.shape()), x, y);
  return y;
}

Tensor is_zero(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::boolean, x.device());
  backend::of(x).elementwise.unary(Unary::logical_not, {}, x, y);
  return y;
}

// The gradient of max and min goes to the winner, by halves if both are equal, and to both if one
// is NaN. `loses` compares an operand with the other.
Tensor extremum(Op op, Binary kernel, Binary loses, const Tensor& a, const Tensor& b) {
  return binary(
      op, kernel, a, b, [loses](const Tensor& dy, const Tensor& a, const Tensor& b, GradSlots dx) {
        const Tensor tie = compute(Binary::equal, a, b, dy.dtype());
        const Tensor share = compute(Unary::scale, tie, {-0.5, 1});
        const Tensor shared = compute(Binary::mul, dy, share);
        for (int i = 0; i < 2; ++i) {
          const GradSlot& slot = dx[static_cast<size_t>(i)];
          if (!slot.needs_grad()) continue;
          const Tensor lost = compute(loses, i == 0 ? a : b, i == 0 ? b : a, DType::boolean);
          add_reduced(slot, zero_where(lost, shared));
        }
      });
}

// As in PyTorch and NumPy: neither 0 - 1 nor "a and not b" is a bool that everybody expects.
void refuse_bools(Op op, const Tensor& a, const Tensor& b) {
  if (a.dtype() != DType::boolean || b.dtype() != DType::boolean) return;
  fail(name(op), {.argument = "operands",
                  .expected = "at least one of numbers",
                  .found = "bool and bool",
                  .hint = "use a != b, a & ~b, or cast() one of them"});
}

// Exact division of integers: the quotient rounded towards zero, what is left of a, and whether the
// floor of the quotient is one less.
struct WholeQuotient {
  Tensor quotient, rest, rounds_up;

  WholeQuotient(const char* op, const Tensor& a, const Tensor& b) {
    if (backend::capabilities(b.device()).is_host_readable && any(eq(b, 0)).item() != 0)
      fail(op, {.argument = "b", .expected = "no zero among integers", .found = "0"});
    quotient = compute(Binary::div, a, b, DType::i64);
    rest = a - quotient * b;
    rounds_up = logical_and(not_equal(rest, 0), not_equal(less(rest, 0), less(b, 0)));
  }
};

// Bits of integers; bools are integers of one bit.
Tensor bitwise(Op op, Binary kernel, const Tensor& a, const Tensor& b) {
  check_operands(op, a, b);
  require_integers(name(op), "a", a);
  require_integers(name(op), "b", b);
  const Call call(op, {a, b});
  return call.result(compute(kernel, a, b, result_type(a, b)));
}

// 2 to the power of b.
Tensor shift_factor(const char* op, const Tensor& a, const Tensor& b) {
  require_integers(op, "a", a);
  require_integers(op, "b", b);
  return pow(full({}, 2, DType::i64, b.device()), cast(b, DType::i64));
}

// A number as a tensor beside x: in x's type if that is floating, else i64 or f32.
Tensor number(Op op, Scalar value, const Tensor& x) {
  require_defined(name(op), "x", x);
  const DType type = is_floating(x.dtype()) ? x.dtype()
                     : value.is_integer()   ? DType::i64
                                            : DType::f32;
  return full({}, value.value(), type, x.device());
}

// params.a * x + params.b in one pass if x is floating, else the result of `general`.
template <class F>
Tensor linear_function(Op op, const Tensor& x, backend::UnaryParams params, F general) {
  require_defined(name(op), "x", x);
  if (!is_compute(x.dtype())) return general();
  const Call call(op, {x});
  return call.result(compute(Unary::scale, call[0], params),
                     [factor = params.a](const Tensor& dy, GradSlots dx) {
                       dx[0].add(factor == 1 ? dy : scaled(dy, factor));
                     });
}

// a = op(a, b) in a's memory and type.
Tensor& assign(Op op, Binary kernel, Tensor& a, const Tensor& b,
               Tensor (*compute_new)(const Tensor&, const Tensor&)) {
  check_operands(op, a, b);
  const std::string called = std::string(name(op)) + "_";
  amp::require_one_device(op, std::array{a, b});
  const bool fits = is_floating(a.dtype()) || !is_floating(result_type(kernel, a, b));
  if (!fits || broadcast(called.c_str(), a.shape(), b.shape()) != a.shape()) {
    fail(called, {.argument = "b",
                  .expected = "a result that fits into " + describe(a),
                  .found = describe(b),
                  .hint = "compute a new tensor"});
  }
  const bool records = write_records(a, b);
  require_writable(called.c_str(), a, records);
  if (records) {
    // Products and quotients save their operands, which the write would change.
    const bool saves = kernel == Binary::mul || kernel == Binary::div;
    const bool is_shared = a.storage() == b.storage();
    write(a, compute_new(saves ? clone(a) : a, saves && is_shared ? clone(b) : b), true);
    return a;
  }
  const Tensor other = unaffected_by_write(a, b);
  backend::of(a).elementwise.binary(kernel, a, TensorView(other).expanded(a.shape()), a);
  a.bump_version();
  return a;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  check_operands(Op::add, a, b);
  const Call call(Op::add, {a, b});
  return call.result(compute(Binary::add, call[0], call[1]), [](const Tensor& dy, GradSlots dx) {
    add_reduced(dx[0], dy);
    add_reduced(dx[1], dy);
  });
}

Tensor sub(const Tensor& a, const Tensor& b) {
  check_operands(Op::sub, a, b);
  refuse_bools(Op::sub, a, b);
  const Call call(Op::sub, {a, b});
  return call.result(compute(Binary::sub, call[0], call[1]), [](const Tensor& dy, GradSlots dx) {
    add_reduced(dx[0], dy);
    if (dx[1].needs_grad()) add_reduced(dx[1], scaled(dy, -1));
  });
}

Tensor mul(const Tensor& a, const Tensor& b) {
  return binary(Op::mul, Binary::mul, a, b,
                [](const Tensor& dy, const Tensor& a, const Tensor& b, GradSlots dx) {
                  if (dx[0].needs_grad()) add_reduced(dx[0], compute(Binary::mul, dy, b));
                  if (dx[1].needs_grad()) add_reduced(dx[1], compute(Binary::mul, dy, a));
                });
}

Tensor div(const Tensor& a, const Tensor& b) {
  return binary(Op::div, Binary::div, a, b,
                [](const Tensor& dy, const Tensor& a, const Tensor& b, GradSlots dx) {
                  const Tensor da = compute(Binary::div, dy, b);
                  if (dx[1].needs_grad()) {
                    const Tensor ratio = compute(Binary::div, a, b);
                    add_reduced(dx[1], scaled(compute(Binary::mul, da, ratio), -1));
                  }
                  add_reduced(dx[0], da);
                });
}

// f64 makes the quotient's floor right for all narrower types; integers stay integers.
Tensor remainder(const Tensor& a, const Tensor& b) {
  check_operands(Op::remainder, a, b);
  Composite call(Op::remainder, {a, b});
  const DType type = result_type(call[0], call[1]);
  if (!is_floating(type)) {
    const WholeQuotient whole("remainder", call[0], call[1]);
    return call.result(cast(where(whole.rounds_up, whole.rest + call[1], whole.rest), type));
  }
  const Tensor x = cast(call[0], DType::f64), y = cast(call[1], DType::f64);
  const Tensor quotient = floor((x / y).detach());
  // An infinite divisor leaves x as it is, rather than inf * 0.
  const Tensor rest = where(eq(quotient, 0), x, x - y * quotient);
  const Tensor other_sign = logical_and(not_equal(rest, 0), not_equal(less(rest, 0), less(y, 0)));
  return call.result(cast(where(other_sign, rest + y, rest), type));
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  check_operands(Op::div, a, b);
  Composite call(Op::div, {a, b});
  const DType type = result_type(call[0], call[1]);
  if (is_floating(type)) {
    const Tensor rest = remainder(call[0], call[1]);
    const Tensor quotient = call[0] / call[1];
    // The rest is infinite where the divisor is, and of the other sign: the quotient is below 0.
    const Tensor whole = where(is_inf(rest), full({}, -1, type, call[0].device()),
                               round((call[0] - rest) / call[1]));
    return call.result(where(eq(call[1], 0), quotient, whole));
  }
  const WholeQuotient whole("floor_divide", call[0], call[1]);
  return call.result(cast(whole.quotient - cast(whole.rounds_up, DType::i64), type));
}

Tensor pow(const Tensor& a, const Tensor& exponent) {
  return binary(Op::pow, Binary::pow, a, exponent,
                [](const Tensor& dy, const Tensor& a, const Tensor& b, GradSlots dx) {
                  if (dx[0].needs_grad()) {
                    const Tensor lower = compute(Binary::pow, a, compute(Unary::scale, b, {1, -1}));
                    // x^0 is 1 for x = 0, too: 0 rather than 0 * 0^-1.
                    const Tensor da = compute(Binary::mul, dy, compute(Binary::mul, b, lower));
                    add_reduced(dx[0], zero_where(is_zero(b), da));
                  }
                  if (dx[1].needs_grad()) {
                    const Tensor y = compute(Binary::pow, a, b);
                    const Tensor db =
                        compute(Binary::mul, dy, compute(Binary::mul, y, compute(Unary::log, a)));
                    // 0^b is constant for b > 0, where y log(a) is 0 * -inf; PyTorch includes 0.
                    const Tensor constant = compute(
                        Binary::logical_and, is_zero(a),
                        compute(Binary::greater_equal, b, zero(b), DType::boolean), DType::boolean);
                    add_reduced(dx[1], zero_where(constant, db));
                  }
                });
}

Tensor atan2(const Tensor& a, const Tensor& b) {
  return binary(Op::atan2, Binary::atan2, a, b,
                [](const Tensor& dy, const Tensor& a, const Tensor& b, GradSlots dx) {
                  const Tensor square =
                      compute(Binary::add, compute(Unary::square, a), compute(Unary::square, b));
                  // The angle of the origin is any: no gradient, as in PyTorch.
                  const Tensor factor =
                      zero_where(is_zero(square), compute(Binary::div, dy, square));
                  if (dx[0].needs_grad()) add_reduced(dx[0], compute(Binary::mul, factor, b));
                  if (dx[1].needs_grad())
                    add_reduced(dx[1], scaled(compute(Binary::mul, factor, a), -1));
                });
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return extremum(Op::maximum, Binary::maximum, Binary::less, a, b);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return extremum(Op::minimum, Binary::minimum, Binary::greater, a, b);
}

Tensor add(const Tensor& a, Scalar b) {
  return linear_function(Op::add, a, {1, b.value()}, [&] { return add(a, number(Op::add, b, a)); });
}

Tensor sub(const Tensor& a, Scalar b) {
  return linear_function(Op::sub, a, {1, -b.value()},
                         [&] { return sub(a, number(Op::sub, b, a)); });
}

Tensor sub(Scalar a, const Tensor& b) {
  return linear_function(Op::sub, b, {-1, a.value()},
                         [&] { return sub(number(Op::sub, a, b), b); });
}

Tensor mul(const Tensor& a, Scalar b) {
  return linear_function(Op::mul, a, {b.value(), 0}, [&] { return mul(a, number(Op::mul, b, a)); });
}

Tensor div(const Tensor& a, Scalar b) {
  if (b.value() == 0)
    fail("div", {.argument = "divisor", .expected = "a number other than 0", .found = "0"});
  return linear_function(Op::div, a, {1 / b.value(), 0},
                         [&] { return div(a, number(Op::div, b, a)); });
}

Tensor div(Scalar a, const Tensor& b) { return div(number(Op::div, a, b), b); }

Tensor floor_divide(const Tensor& a, Scalar b) { return floor_divide(a, number(Op::div, b, a)); }

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return bitwise(Op::bitwise_and, Binary::bitwise_and, a, b);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return bitwise(Op::bitwise_or, Binary::bitwise_or, a, b);
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return bitwise(Op::bitwise_xor, Binary::bitwise_xor, a, b);
}
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  return cast(a * shift_factor("bitwise_left_shift", a, b), result_type(a, b));
}
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  return cast(floor_divide(a, shift_factor("bitwise_right_shift", a, b)), result_type(a, b));
}

Tensor& operator+=(Tensor& a, const Tensor& b) { return assign(Op::add, Binary::add, a, b, add); }
Tensor& operator-=(Tensor& a, const Tensor& b) {
  if (a.defined() && b.defined()) refuse_bools(Op::sub, a, b);
  return assign(Op::sub, Binary::sub, a, b, sub);
}
Tensor& operator*=(Tensor& a, const Tensor& b) { return assign(Op::mul, Binary::mul, a, b, mul); }
Tensor& operator/=(Tensor& a, const Tensor& b) { return assign(Op::div, Binary::div, a, b, div); }
Tensor scalar_of(const Tensor& a, Scalar b) {
  require_defined("bitwise", "a", a);
  return full({}, b.value(), a.dtype(), a.device());
}

Tensor& operator+=(Tensor& a, Scalar b) { return a += number(Op::add, b, a); }
Tensor& operator-=(Tensor& a, Scalar b) { return a -= number(Op::sub, b, a); }
Tensor& operator*=(Tensor& a, Scalar b) { return a *= number(Op::mul, b, a); }
Tensor& operator/=(Tensor& a, Scalar b) { return a /= number(Op::div, b, a); }

Tensor addcmul(const Tensor& a, const Tensor& b, const Tensor& c, double value) {
  check_ternary(Op::addcmul, a, b, c);
  require_finite("addcmul", "value", value);
  const Call call(Op::addcmul, {a, b, c});
  const Tensor product = scaled(compute(Binary::mul, call[1], call[2]), value);
  return call.result(
      compute(Binary::add, call[0], product),
      [value, b = Saved(call[1]), c = Saved(call[2])](const Tensor& dy, GradSlots dx) {
        add_reduced(dx[0], dy);
        const Tensor scaled_dy = scaled(dy, value);
        if (dx[1].needs_grad()) add_reduced(dx[1], compute(Binary::mul, scaled_dy, c));
        if (dx[2].needs_grad()) add_reduced(dx[2], compute(Binary::mul, scaled_dy, b));
      });
}

Tensor remainder(const Tensor& a, Scalar b) { return remainder(a, number(Op::remainder, b, a)); }

Tensor addcdiv(const Tensor& a, const Tensor& b, const Tensor& c, double value) {
  check_ternary(Op::addcdiv, a, b, c);
  require_finite("addcdiv", "value", value);
  const Call call(Op::addcdiv, {a, b, c});
  const Tensor quotient = scaled(compute(Binary::div, call[1], call[2]), value);
  return call.result(
      compute(Binary::add, call[0], quotient),
      [value, b = Saved(call[1]), c = Saved(call[2])](const Tensor& dy, GradSlots dx) {
        add_reduced(dx[0], dy);
        const Tensor db = compute(Binary::div, scaled(dy, value), c);
        if (dx[2].needs_grad()) {
          add_reduced(dx[2], scaled(compute(Binary::mul, db, compute(Binary::div, b, c)), -1));
        }
        add_reduced(dx[1], db);
      });
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check_operands(Op::where, a, b);
  require_defined("where", "condition", condition);
  if (condition.dtype() != DType::boolean) {
    fail("where", {.argument = "condition", .expected = "bool", .found = describe(condition)});
  }
  require_device("where", "condition", condition, a);
  const Call call(Op::where, {a, b});
  const Shape shape =
      broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  Tensor y = Tensor::empty(shape, result_type(call[0], call[1]), a.device());
  const auto choose = [](const Tensor& condition, const Tensor& a, const Tensor& b,
                         const Tensor& y) {
    backend::of(y).elementwise.where(TensorView(condition).expanded(y.shape()),
                                     TensorView(a).expanded(y.shape()),
                                     TensorView(b).expanded(y.shape()), y);
  };
  choose(condition, call[0], call[1], y);
  return call.result(y, [choose, condition = Saved(condition)](const Tensor& dy, GradSlots dx) {
    const Tensor none = zero(dy);
    for (size_t i = 0; i < 2; ++i) {
      if (!dx[i].needs_grad()) continue;
      const Tensor part = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
      choose(condition, i == 0 ? dy : none, i == 0 ? none : dy, part);
      add_reduced(dx[i], part);
    }
  });
}

Tensor eq(const Tensor& a, const Tensor& b) { return comparison(Op::eq, Binary::equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) {
  return comparison(Op::not_equal, Binary::not_equal, a, b);
}
Tensor less(const Tensor& a, const Tensor& b) { return comparison(Op::less, Binary::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) {
  return comparison(Op::less_equal, Binary::less_equal, a, b);
}
Tensor greater(const Tensor& a, const Tensor& b) {
  return comparison(Op::greater, Binary::greater, a, b);
}
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return comparison(Op::greater_equal, Binary::greater_equal, a, b);
}
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return comparison(Op::logical_and, Binary::logical_and, a, b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return comparison(Op::logical_or, Binary::logical_or, a, b);
}

Tensor eq(const Tensor& a, Scalar b) { return eq(a, number(Op::eq, b, a)); }
Tensor not_equal(const Tensor& a, Scalar b) { return not_equal(a, number(Op::not_equal, b, a)); }
Tensor less(const Tensor& a, Scalar b) { return less(a, number(Op::less, b, a)); }
Tensor less_equal(const Tensor& a, Scalar b) { return less_equal(a, number(Op::less_equal, b, a)); }
Tensor greater(const Tensor& a, Scalar b) { return greater(a, number(Op::greater, b, a)); }
Tensor greater_equal(const Tensor& a, Scalar b) {
  return greater_equal(a, number(Op::greater_equal, b, a));
}

bool equal(const Tensor& a, const Tensor& b) {
  require_defined("equal", "a", a);
  require_defined("equal", "b", b);
  if (a.shape() != b.shape()) return false;
  return sum(not_equal(a, b)).item() == 0;
}

}  // namespace binade
