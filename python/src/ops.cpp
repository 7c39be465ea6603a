#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/shape/shape.h"
#include "bindings.h"

// Ops on plain tensors, both as functions and as methods. Ops of one signature are entries of one
// table.
namespace binade::python {
namespace {

struct UnaryEntry {
  const char* name;
  Tensor (*run)(const Tensor&);
  const char* doc;
};

constexpr UnaryEntry unary_table[] = {
    {"neg", neg, "-x."},
    {"__neg__", neg, "-x."},
    {"abs", abs, "|x|."},
    {"__abs__", abs, "|x|."},
    {"sign", sign, "-1, 0 or 1."},
    {"square", square, "x * x."},
    {"sqrt", sqrt, "The square root."},
    {"rsqrt", rsqrt, "1 / sqrt(x)."},
    {"reciprocal", reciprocal, "1 / x."},
    {"exp", exp, "e to the power of x."},
    {"expm1", expm1, "exp(x) - 1, accurate near 0."},
    {"log", log, "The natural logarithm."},
    {"log2", log2, "The logarithm to base 2."},
    {"log10", log10, "The logarithm to base 10."},
    {"log1p", log1p, "log(1 + x), accurate near 0."},
    {"sin", sin, "The sine."},
    {"cos", cos, "The cosine."},
    {"tan", tan, "The tangent."},
    {"asin", asin, "The inverse sine."},
    {"acos", acos, "The inverse cosine."},
    {"atan", atan, "The inverse tangent."},
    {"sinh", sinh, "The hyperbolic sine."},
    {"cosh", cosh, "The hyperbolic cosine."},
    {"tanh", tanh, "The hyperbolic tangent."},
    {"erf", erf, "The error function."},
    {"erfinv", erfinv, "The inverse error function."},
    {"sigmoid", sigmoid, "1 / (1 + exp(-x))."},
    {"relu", relu, "max(x, 0)."},
    {"silu", silu, "x * sigmoid(x)."},
    {"softplus", softplus, "log(1 + exp(x))."},
    {"mish", mish, "x * tanh(softplus(x))."},
    {"hardsigmoid", hardsigmoid, "x / 6 + 1 / 2, limited to [0, 1]."},
    {"hardswish", hardswish, "x * hardsigmoid(x)."},
    {"floor", floor, "The largest integer not above x."},
    {"ceil", ceil, "The smallest integer not below x."},
    {"round", round, "The nearest integer, halves to even."},
    {"trunc", trunc, "x without its fraction."},
    {"is_finite", is_finite, "Whether each element is neither infinite nor NaN."},
    {"isfinite", is_finite, "Whether each element is neither infinite nor NaN."},
    {"is_nan", is_nan, "Whether each element is NaN."},
    {"isnan", is_nan, "Whether each element is NaN."},
    {"is_inf", is_inf, "Whether each element is infinite."},
    {"isinf", is_inf, "Whether each element is infinite."},
    {"logical_not", logical_not, "Whether each element is zero."},
    {"__invert__", bitwise_not, ""},
    {"bitwise_not", bitwise_not, "The opposite bits of integers or bools."},
    {"contiguous", contiguous, "x itself if it is dense, else a dense copy."},
    {"swiglu", swiglu, "silu(gate) * up of [..., 2 * width], which holds gate then up."},
};

struct BinaryEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&);
  const char* doc;
};

// Either operand may be a Python number.
constexpr BinaryEntry elementwise_table[] = {
    {"add", add, "a + b."},
    {"__add__", add, ""},
    {"sub", sub, "a - b."},
    {"__sub__", sub, ""},
    {"mul", mul, "a * b."},
    {"__mul__", mul, ""},
    {"div", div, "a / b."},
    {"__truediv__", div, ""},
    {"pow", pow, "a to the power of b."},
    {"__pow__", pow, ""},
    {"remainder", remainder, "a - floor(a / b) * b, which has the sign of b."},
    {"__mod__", remainder, ""},
    {"atan2", atan2, "The angle of the point (b, a)."},
    {"maximum", maximum, "The larger of a and b; NaN if either is."},
    {"minimum", minimum, "The smaller of a and b; NaN if either is."},
    {"eq", eq, "a == b, by element."},
    {"__eq__", eq, ""},
    {"ne", not_equal, "a != b, by element."},
    {"not_equal", not_equal, "a != b, by element."},
    {"__ne__", not_equal, ""},
    {"lt", less, "a < b, by element."},
    {"less", less, "a < b, by element."},
    {"__lt__", less, ""},
    {"le", less_equal, "a <= b, by element."},
    {"less_equal", less_equal, "a <= b, by element."},
    {"__le__", less_equal, ""},
    {"gt", greater, "a > b, by element."},
    {"greater", greater, "a > b, by element."},
    {"__gt__", greater, ""},
    {"ge", greater_equal, "a >= b, by element."},
    {"greater_equal", greater_equal, "a >= b, by element."},
    {"__ge__", greater_equal, ""},
    {"logical_and", logical_and, "Whether both are nonzero."},
    {"__and__", bitwise_and, ""},
    {"logical_or", logical_or, "Whether either is nonzero."},
    {"__or__", bitwise_or, ""},
    {"__xor__", bitwise_xor, ""},
    {"floor_divide", floor_divide, "floor(a / b)."},
    {"__floordiv__", floor_divide, ""},
    {"bitwise_left_shift", bitwise_left_shift, "a * 2^b, of integers."},
    {"__lshift__", bitwise_left_shift, ""},
    {"bitwise_right_shift", bitwise_right_shift, "floor(a / 2^b), of integers."},
    {"__rshift__", bitwise_right_shift, ""},
    {"bitwise_and", bitwise_and, "The bits that integers or bools have in common."},
    {"bitwise_or", bitwise_or, "The bits that either of two integers or bools has."},
    {"bitwise_xor", bitwise_xor, "The bits in which integers or bools differ."},
};

constexpr BinaryEntry matrix_table[] = {
    {"matmul", matmul, "The matrix product; batch axes broadcast."},
    {"mm", mm, "[m, k] x [k, n]."},
    {"bmm", bmm, "[batch, m, k] x [batch, k, n]."},
    {"mv", mv, "[m, k] x [k]."},
    {"dot", dot, "[k] x [k]."},
    {"prelu", prelu, "max(x, 0) + weight * min(x, 0)."},
    {"cdist", cdist, "Euclidean distances of all rows of a to all rows of b."},
};

bool is_operator(const char* name) { return name[0] == '_'; }

// A number as an operand of x, so that it does not change x's type.
Tensor scalar_for(const Tensor& x, double value, bool is_integer) {
  DType dtype = is_integer ? DType::i64 : DType::f32;
  if (is_floating(x.dtype())) {
    const bool keeps_type = x.rank() == 0 || x.dtype() == DType::f64;
    dtype = keeps_type ? x.dtype() : DType::f32;
  }
  return full(Shape{}, value, dtype, x.device());
}

// A NumPy array as a tensor, or a NumPy number as one of Python, which then follows the rules of x.
Tensor array_operand(const Tensor& x, nb::handle object) {
  if (!nb::hasattr(object, "__array_interface__")) throw nb::next_overload();
  const nb::object operand = nb::module_::import_("binade._creation").attr("_operand")(object);
  if (nb::isinstance<Tensor>(operand)) return nb::cast<Tensor>(operand);
  return scalar_for(x, nb::cast<double>(operand), !nb::isinstance<nb::float_>(operand));
}

using BinaryOp = Tensor (*)(const Tensor&, const Tensor&);

// The op on a tensor and an array; `reflected` if the array is the first operand.
auto with_array(BinaryOp run, bool reflected = false) {
  return [run, reflected](const Tensor& x, nb::handle object) {
    const Tensor other = array_operand(x, object);
    const nb::gil_scoped_release no_gil;
    return reflected ? run(other, x) : run(x, other);
  };
}

// An operator returns NotImplemented for operands it does not know; a function raises TypeError.
void bind_elementwise(nb::module_& m, TensorClass& tensor) {
  for (const BinaryEntry& entry : elementwise_table) {
    const auto run = entry.run;
    const auto with_truth = [run](const Tensor& a, bool b) {
      return run(a, full(Shape{}, b ? 1 : 0, DType::boolean, a.device()));
    };
    const auto with_integer = [run](const Tensor& a, int64_t b) {
      return run(a, scalar_for(a, static_cast<double>(b), true));
    };
    const auto with_number = [run](const Tensor& a, double b) {
      return run(a, scalar_for(a, b, false));
    };
    if (is_operator(entry.name)) {
      tensor.def(entry.name, run, nb::is_operator(), ReleaseGil())
          .def(entry.name, with_truth, nb::is_operator(), ReleaseGil())
          .def(entry.name, with_integer, nb::is_operator(), ReleaseGil())
          .def(entry.name, with_number, nb::is_operator(), ReleaseGil())
          .def(entry.name, with_array(run), nb::is_operator());
    } else {
      def_op(m, tensor, entry.name, run, "other"_a, entry.doc);
      def_op(m, tensor, entry.name, with_integer, "other"_a);
      def_op(m, tensor, entry.name, with_number, "other"_a);
      m.def(entry.name, with_array(run), "input"_a, "other"_a);
      tensor.def(entry.name, with_array(run), "other"_a);
    }
  }
}

// add and sub with the second operand scaled.
void bind_scaled(nb::module_& m, TensorClass& tensor) {
  for (const BinaryEntry& entry : {BinaryEntry{"add", add, ""}, BinaryEntry{"sub", sub, ""}}) {
    const auto run = entry.run;
    def_op(
        m, tensor, entry.name,
        [run](const Tensor& a, const Tensor& b, int64_t alpha) { return run(a, mul(b, alpha)); },
        "other"_a, nb::kw_only(), "alpha"_a);
    def_op(
        m, tensor, entry.name,
        [run](const Tensor& a, const Tensor& b, double alpha) { return run(a, mul(b, alpha)); },
        "other"_a, nb::kw_only(), "alpha"_a);
  }
}

struct ReflectedEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&);
};

constexpr ReflectedEntry reflected_table[] = {
    {"__rxor__", bitwise_xor}, {"__radd__", add},
    {"__rsub__", sub},         {"__rmul__", mul},
    {"__rtruediv__", div},     {"__rpow__", pow},
    {"__rmod__", remainder},   {"__rfloordiv__", floor_divide},
    {"__rand__", bitwise_and}, {"__ror__", bitwise_or},
};

void bind_reflected(TensorClass& tensor) {
  for (const ReflectedEntry& entry : reflected_table) {
    const auto run = entry.run;
    tensor
        .def(
            entry.name,
            [run](const Tensor& b, bool a) {
              return run(full(Shape{}, a ? 1 : 0, DType::boolean, b.device()), b);
            },
            nb::is_operator(), ReleaseGil())
        .def(
            entry.name,
            [run](const Tensor& b, int64_t a) {
              return run(scalar_for(b, static_cast<double>(a), true), b);
            },
            nb::is_operator(), ReleaseGil())
        .def(
            entry.name,
            [run](const Tensor& b, double a) { return run(scalar_for(b, a, false), b); },
            nb::is_operator(), ReleaseGil())
        .def(entry.name, with_array(run, true), nb::is_operator());
  }
  tensor.def("__rmatmul__", with_array(matmul, true), nb::is_operator());
}

// Axes of other sizes stay, as in PyTorch.
Tensor squeeze_if_one(const Tensor& x, int64_t axis) {
  return x.size(axis) == 1 ? squeeze(x, axis) : x;
}

Tensor squeeze_all(const Tensor& x) {
  Tensor y = x;
  for (int axis = x.rank() - 1; axis >= 0; --axis)
    if (x.size(axis) == 1) y = squeeze(y, axis);
  return y;
}

void bind_shapes(nb::module_& m, TensorClass& tensor) {
  def_op(m, tensor, "reshape", &reshape, "shape"_a,
         "The same elements in another shape; one size may be -1.");
  def_op(m, tensor, "flatten", &flatten, "start_dim"_a = 0, "end_dim"_a = -1, "Merges axes.");
  def_op(m, tensor, "permute", &permute, "dims"_a, "The axes in another order, without a copy.");
  def_op(m, tensor, "transpose", &transpose, "dim0"_a, "dim1"_a, "Swaps two axes, without a copy.");
  def_op(m, tensor, "slice", &slice, "dim"_a, "start"_a, "end"_a, "step"_a = 1,
         "Elements start, start + step, ... before end along an axis.");
  def_op(m, tensor, "select", &select, "dim"_a, "index"_a,
         "One index of an axis, without the axis.");
  def_op(m, tensor, "expand", &expand, "shape"_a, "Repeats axes of size 1 without a copy.");
  constexpr auto split_evenly =
      static_cast<std::vector<Tensor> (*)(const Tensor&, int64_t, int64_t)>(split);
  constexpr auto split_by_sizes =
      static_cast<std::vector<Tensor> (*)(const Tensor&, const std::vector<int64_t>&, int64_t)>(
          split);
  for (const AxisNames& names : axis_names) {
    const auto first_axis = nb::arg(names.axis) = 0;
    m.def(
        "cat", [](const std::vector<Tensor>& tensors, int64_t dim) { return cat(tensors, dim); },
        "tensors"_a, first_axis, ReleaseGil(), "Joins tensors along an existing axis.");
    m.def(
        "stack",
        [](const std::vector<Tensor>& tensors, int64_t dim) { return stack(tensors, dim); },
        "tensors"_a, first_axis, ReleaseGil(), "Joins tensors along a new axis.");
    def_op(m, tensor, "split", split_evenly, "split_size"_a, first_axis,
           "Pieces of one size (the last may be smaller), or of the given sizes.");
    def_op(m, tensor, "split", split_by_sizes, "split_sizes"_a, first_axis);
    def_op(m, tensor, "unsqueeze", &unsqueeze, nb::arg(names.axis), "Inserts an axis of size 1.");
    def_op(m, tensor, "squeeze", &squeeze_if_one, nb::arg(names.axis),
           "Removes an axis of size 1; without an axis, every one.");
  }
  def_op(m, tensor, "squeeze", &squeeze_all);
}

void bind_indexing(nb::module_& m, TensorClass& tensor) {
  def_op(m, tensor, "gather", &gather, "dim"_a, "index"_a,
         "y[i][j] = x[index[i][j]][j] for dim 0, and so on.");
  def_op(m, tensor, "index_select", &index_select, "dim"_a, "index"_a,
         "The entries of an axis that a 1-D index selects.");
  def_op(m, tensor, "scatter_add", &scatter_add, "dim"_a, "index"_a, "source"_a,
         "x with source added at the indices along an axis.");
  def_op(m, tensor, "index_put", &index_put, "index"_a, "values"_a, "accumulate"_a = false,
         "x with the rows that a 1-D index selects replaced, or added to.");
  m.def("_where", &where, "condition"_a, "input"_a, "other"_a, ReleaseGil(),
        "`input` where the condition holds, else `other`.");
}

}  // namespace

void bind_ops(nb::module_& m, TensorClass& tensor) {
  for (const UnaryEntry& entry : unary_table) {
    tensor.def(entry.name, entry.run, ReleaseGil(), entry.doc);
    if (!is_operator(entry.name)) m.def(entry.name, entry.run, "input"_a, ReleaseGil(), entry.doc);
  }
  tensor.def("__matmul__", static_cast<BinaryOp>(matmul), nb::is_operator(), ReleaseGil())
      .def("__matmul__", with_array(matmul), nb::is_operator());
  for (const BinaryEntry& entry : matrix_table)
    def_op(m, tensor, entry.name, entry.run, "other"_a, entry.doc);
  bind_elementwise(m, tensor);
  bind_reflected(tensor);
  bind_scaled(m, tensor);
  bind_shapes(m, tensor);
  bind_indexing(m, tensor);
  for (const char* name : {"clamp", "clip"})
    def_op(m, tensor, name, &clamp, "min"_a = -std::numeric_limits<double>::infinity(),
           "max"_a = std::numeric_limits<double>::infinity(), "x limited to [min, max].");
  def_op(m, tensor, "elu", &elu, "alpha"_a = 1.0, "alpha * (exp(x) - 1) below 0, x above.");
  def_op(m, tensor, "leaky_relu", &leaky_relu, "negative_slope"_a = 0.01,
         "max(x, 0) + negative_slope * min(x, 0).");
  def_op(
      m, tensor, "gelu",
      [](const Tensor& x, const std::string& approximate) {
        if (approximate != "none" && approximate != "tanh") {
          fail("gelu", {.argument = "approximate",
                        .expected = "none or tanh",
                        .found = "'" + approximate + "'"});
        }
        return gelu(x, approximate == "tanh" ? Gelu::tanh : Gelu::erf);
      },
      "approximate"_a = "none", "x times the normal distribution's cumulative probability.");
  def_op(m, tensor, "cast", &cast, "dtype"_a, "x in another dtype, rounded once.");
  def_op(m, tensor, "dropout", &dropout, "p"_a = 0.5, "training"_a = true,
         "Zeroes elements with probability p and scales the rest by 1 / (1 - p).");
  m.def("addcmul", &addcmul, "input"_a, "tensor1"_a, "tensor2"_a, nb::kw_only(), "value"_a = 1.0,
        ReleaseGil(), "input + value * tensor1 * tensor2.");
  m.def("addcdiv", &addcdiv, "input"_a, "tensor1"_a, "tensor2"_a, nb::kw_only(), "value"_a = 1.0,
        ReleaseGil(), "input + value * tensor1 / tensor2.");
  m.def("addmm", &addmm, "input"_a, "mat1"_a, "mat2"_a, nb::kw_only(), "beta"_a = 1.0,
        "alpha"_a = 1.0, ReleaseGil(), "beta * input + alpha * mat1 mat2.");
  m.def("baddbmm", &baddbmm, "input"_a, "batch1"_a, "batch2"_a, nb::kw_only(), "beta"_a = 1.0,
        "alpha"_a = 1.0, ReleaseGil(), "beta * input + alpha * batch1 batch2.");
  m.def("tensordot", &tensordot, "a"_a, "b"_a, "dims_a"_a, "dims_b"_a, ReleaseGil(),
        "Sums over dims_a of a paired with dims_b of b.");
  m.def(
      "_einsum",
      [](const std::string& equation, const std::vector<Tensor>& operands) {
        return einsum(equation, operands);
      },
      "equation"_a, "operands"_a, ReleaseGil());
  m.def("cosine_similarity", &cosine_similarity, "x1"_a, "x2"_a, "dim"_a = -1, "eps"_a = 1e-8,
        ReleaseGil(), "a . b / (|a| |b|) along an axis.");
  m.def("cross", &cross, "input"_a, "other"_a, "dim"_a = -1, ReleaseGil(),
        "The cross product along an axis of size 3.");
}

}  // namespace binade::python
