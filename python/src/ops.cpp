#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
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
    {"__invert__", logical_not, "Whether each element is zero."},
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
    {"not_equal", not_equal, "a != b, by element."},
    {"__ne__", not_equal, ""},
    {"less", less, "a < b, by element."},
    {"__lt__", less, ""},
    {"less_equal", less_equal, "a <= b, by element."},
    {"__le__", less_equal, ""},
    {"greater", greater, "a > b, by element."},
    {"__gt__", greater, ""},
    {"greater_equal", greater_equal, "a >= b, by element."},
    {"__ge__", greater_equal, ""},
    {"logical_and", logical_and, "Whether both are nonzero."},
    {"__and__", logical_and, ""},
    {"logical_or", logical_or, "Whether either is nonzero."},
    {"__or__", logical_or, ""},
};

constexpr BinaryEntry matrix_table[] = {
    {"matmul", matmul, "The matrix product; batch axes broadcast."},
    {"__matmul__", matmul, ""},
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

// An operator returns NotImplemented for operands it does not know; a function raises TypeError.
void bind_elementwise(nb::module_& m, TensorClass& tensor) {
  for (const BinaryEntry& entry : elementwise_table) {
    const auto run = entry.run;
    const auto with_integer = [run](const Tensor& a, int64_t b) {
      return run(a, scalar_for(a, static_cast<double>(b), true));
    };
    const auto with_number = [run](const Tensor& a, double b) {
      return run(a, scalar_for(a, b, false));
    };
    if (is_operator(entry.name)) {
      tensor.def(entry.name, run, nb::is_operator(), ReleaseGil())
          .def(entry.name, with_integer, nb::is_operator(), ReleaseGil())
          .def(entry.name, with_number, nb::is_operator(), ReleaseGil());
    } else {
      def_op(m, tensor, entry.name, run, "other"_a, entry.doc);
      def_op(m, tensor, entry.name, with_integer, "other"_a);
      def_op(m, tensor, entry.name, with_number, "other"_a);
    }
  }
}

struct ReflectedEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&);
};

constexpr ReflectedEntry reflected_table[] = {
    {"__radd__", add},     {"__rsub__", sub}, {"__rmul__", mul},
    {"__rtruediv__", div}, {"__rpow__", pow}, {"__rmod__", remainder},
};

void bind_reflected(TensorClass& tensor) {
  for (const ReflectedEntry& entry : reflected_table) {
    const auto run = entry.run;
    tensor
        .def(
            entry.name,
            [run](const Tensor& b, int64_t a) {
              return run(scalar_for(b, static_cast<double>(a), true), b);
            },
            nb::is_operator(), ReleaseGil())
        .def(
            entry.name,
            [run](const Tensor& b, double a) { return run(scalar_for(b, a, false), b); },
            nb::is_operator(), ReleaseGil());
  }
}

// One number or several; None: all axes.
struct AxesEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Axes&, bool);
  const char* doc;
};

constexpr AxesEntry reduction_table[] = {
    {"prod", prod, "The product over `dim`."},
    {"amax", max, "The largest element over `dim`; NaN if any is."},
    {"amin", min, "The smallest element over `dim`; NaN if any is."},
    {"max", max, "The largest element over `dim`; NaN if any is."},
    {"min", min, "The smallest element over `dim`; NaN if any is."},
    {"any", any, "Whether any element over `dim` is nonzero."},
    {"all", all, "Whether every element over `dim` is nonzero."},
};

Axes axes_of(const std::optional<Shape>& dim) {
  Axes axes;
  if (dim) axes.insert(axes.end(), dim->begin(), dim->end());
  return axes;
}

struct TypedReduction {
  const char* name;
  Tensor (*run)(const Tensor&, const Axes&, bool, std::optional<DType>);
  const char* doc;
};

constexpr TypedReduction typed_reduction_table[] = {
    {"sum", sum, "The sum over `dim`, accumulated in f32 for 16-bit types."},
    {"mean", mean, "The mean over `dim`, accumulated in f32 for 16-bit types."},
};

struct AxisEntry {
  const char* name;
  Tensor (*run)(const Tensor&, int64_t);
  const char* doc;
};

constexpr AxisEntry axis_table[] = {
    {"cumsum", cumsum, "Running sums along `dim`."},
    {"cumprod", cumprod, "Running products along `dim`."},
    {"squeeze", squeeze, "Removes an axis of size 1."},
    {"unsqueeze", unsqueeze, "Inserts an axis of size 1."},
};

struct AxisKeepEntry {
  const char* name;
  Tensor (*run)(const Tensor&, int64_t, bool);
  const char* doc;
};

constexpr AxisKeepEntry axis_keep_table[] = {
    {"argmax", argmax, "The index of the first largest element along `dim`."},
    {"argmin", argmin, "The index of the first smallest element along `dim`."},
    {"logsumexp", logsumexp, "log(sum(exp(x))) along `dim`."},
};

struct SoftmaxEntry {
  const char* name;
  Tensor (*run)(const Tensor&, int64_t, std::optional<DType>);
  const char* doc;
};

constexpr SoftmaxEntry softmax_table[] = {
    {"softmax", softmax, "exp(x) / sum(exp(x)) along `dim`."},
    {"log_softmax", log_softmax, "log(softmax(x)) along `dim`."},
};

struct SpreadEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Axes&, bool, double);
  const char* doc;
};

constexpr SpreadEntry spread_table[] = {
    {"var", var, "The variance over `dim`, divided by count - correction."},
    {"std", binade::std, "The standard deviation over `dim`: the square root of var()."},
};

void bind_reductions(nb::module_& m, TensorClass& tensor) {
  for (const AxesEntry& entry : reduction_table) {
    const auto run = entry.run;
    def_op(
        m, tensor, entry.name,
        [run](const Tensor& x, const std::optional<Shape>& dim, bool keepdim) {
          return run(x, axes_of(dim), keepdim);
        },
        "dim"_a = nb::none(), "keepdim"_a = false, entry.doc);
  }
  for (const TypedReduction& entry : typed_reduction_table) {
    const auto run = entry.run;
    def_op(
        m, tensor, entry.name,
        [run](const Tensor& x, const std::optional<Shape>& dim, bool keepdim,
              std::optional<DType> dtype) { return run(x, axes_of(dim), keepdim, dtype); },
        "dim"_a = nb::none(), "keepdim"_a = false, "dtype"_a = nb::none(), entry.doc);
  }
  for (const AxisEntry& entry : axis_table)
    def_op(m, tensor, entry.name, entry.run, "dim"_a, entry.doc);
  for (const AxisKeepEntry& entry : axis_keep_table)
    def_op(m, tensor, entry.name, entry.run, "dim"_a = -1, "keepdim"_a = false, entry.doc);
  for (const SoftmaxEntry& entry : softmax_table)
    def_op(m, tensor, entry.name, entry.run, "dim"_a = -1, "dtype"_a = nb::none(), entry.doc);
  for (const SpreadEntry& entry : spread_table) {
    const auto run = entry.run;
    def_op(
        m, tensor, entry.name,
        [run](const Tensor& x, const std::optional<Shape>& dim, double correction, bool keepdim) {
          return run(x, axes_of(dim), keepdim, correction);
        },
        "dim"_a = nb::none(), "correction"_a = 1.0, "keepdim"_a = false, entry.doc);
  }
  def_op(
      m, tensor, "norm",
      [](const Tensor& x, double p, const std::optional<Shape>& dim, bool keepdim) {
        return norm(x, p, axes_of(dim), keepdim);
      },
      "p"_a = 2.0, "dim"_a = nb::none(), "keepdim"_a = false, "(sum |x|^p)^(1/p) over `dim`.");
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
  m.def(
      "cat", [](const std::vector<Tensor>& tensors, int64_t dim) { return cat(tensors, dim); },
      "tensors"_a, "dim"_a = 0, ReleaseGil(), "Joins tensors along an existing axis.");
  m.def(
      "stack", [](const std::vector<Tensor>& tensors, int64_t dim) { return stack(tensors, dim); },
      "tensors"_a, "dim"_a = 0, ReleaseGil(), "Joins tensors along a new axis.");
  constexpr auto split_evenly =
      static_cast<std::vector<Tensor> (*)(const Tensor&, int64_t, int64_t)>(split);
  constexpr auto split_by_sizes =
      static_cast<std::vector<Tensor> (*)(const Tensor&, const std::vector<int64_t>&, int64_t)>(
          split);
  def_op(m, tensor, "split", split_evenly, "split_size"_a, "dim"_a = 0,
         "Pieces of one size (the last may be smaller), or of the given sizes.");
  def_op(m, tensor, "split", split_by_sizes, "split_sizes"_a, "dim"_a = 0);
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
  m.def("where", &where, "condition"_a, "input"_a, "other"_a, ReleaseGil(),
        "`input` where the condition holds, else `other`.");
}

}  // namespace

void bind_ops(nb::module_& m, TensorClass& tensor) {
  for (const UnaryEntry& entry : unary_table) {
    tensor.def(entry.name, entry.run, ReleaseGil(), entry.doc);
    if (!is_operator(entry.name)) m.def(entry.name, entry.run, "input"_a, ReleaseGil(), entry.doc);
  }
  for (const BinaryEntry& entry : matrix_table) {
    tensor.def(entry.name, entry.run, "other"_a, ReleaseGil(), entry.doc);
    if (!is_operator(entry.name))
      m.def(entry.name, entry.run, "input"_a, "other"_a, ReleaseGil(), entry.doc);
  }
  bind_elementwise(m, tensor);
  bind_reflected(tensor);
  bind_reductions(m, tensor);
  bind_shapes(m, tensor);
  bind_indexing(m, tensor);
  def_op(m, tensor, "clamp", &clamp, "min"_a = -std::numeric_limits<double>::infinity(),
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
