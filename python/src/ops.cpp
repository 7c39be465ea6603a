#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/libtorch_names.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/shape/shape.h"
#include "bindings.h"

// Operators and ops of which either operand may be a Python number, and those that take other
// arguments than tensor/ops.def says (plain_ops.cpp lists them).
namespace binade::python {
namespace {

using UnaryOp = Tensor (*)(const Tensor&);
using BinaryOp = Tensor (*)(const Tensor&, const Tensor&);

struct UnaryOperator {
  const char* name;
  UnaryOp run;
};

constexpr UnaryOperator unary_operators[] = {
    {"__neg__", neg}, {"__abs__", abs}, {"__invert__", bitwise_not}};

// Functions of two operands: the BINARY lines of tensor/ops.def.
struct BinaryEntry {
  const char* name;
  BinaryOp run;
};

constexpr BinaryEntry elementwise_table[] = {
// clang-format off
#define BINARY(name, cast, gradient, numbers, form, summary) {#name, binade::name},
#include "binade/tensor/ops.def"
    // clang-format on
};

constexpr BinaryEntry binary_operators[] = {
    {"__add__", add},
    {"__sub__", sub},
    {"__mul__", mul},
    {"__truediv__", div},
    {"__pow__", pow},
    {"__mod__", remainder},
    {"__eq__", eq},
    {"__ne__", not_equal},
    {"__lt__", less},
    {"__le__", less_equal},
    {"__gt__", greater},
    {"__ge__", greater_equal},
    {"__and__", bitwise_and},
    {"__or__", bitwise_or},
    {"__xor__", bitwise_xor},
    {"__floordiv__", floor_divide},
    {"__lshift__", bitwise_left_shift},
    {"__rshift__", bitwise_right_shift},
};

// A number as an operand of x, so that it does not change x's type.
Tensor scalar_for(const Tensor& x, double value) {
  const bool keeps_type = is_floating(x.dtype()) && (x.rank() == 0 || x.dtype() == DType::f64);
  return full(Shape{}, value, keeps_type ? x.dtype() : DType::f32, x.device());
}

// The same for a whole number, beside integers with all its digits.
Tensor integer_for(const Tensor& x, int64_t value) {
  if (is_floating(x.dtype())) return scalar_for(x, static_cast<double>(value));
  return binade::tensor(std::span<const int64_t>(&value, 1), Shape{}, x.device());
}

// a op b; an integer has no power below 0.
Tensor with_integer(BinaryOp run, const Tensor& a, int64_t b) {
  if (run == static_cast<BinaryOp>(pow) && b < 0 && !is_floating(a.dtype())) return whole_pow(a, b);
  return run(a, integer_for(a, b));
}

// A NumPy array as a tensor, or a NumPy number as one of Python, which then follows the rules of x.
Tensor array_operand(const Tensor& x, nb::handle object) {
  if (!nb::hasattr(object, "__array_interface__")) throw nb::next_overload();
  const nb::object operand = nb::module_::import_("binade._creation").attr("_operand")(object);
  if (nb::isinstance<Tensor>(operand)) return nb::cast<Tensor>(operand);
  if (nb::isinstance<nb::float_>(operand)) return scalar_for(x, nb::cast<double>(operand));
  return integer_for(x, nb::cast<int64_t>(operand));
}

// The op on a tensor and an array; `reflected` if the array is the first operand.
auto with_array(BinaryOp run, bool reflected = false) {
  return [run, reflected](const Tensor& x, nb::handle object) {
    const Tensor other = array_operand(x, object);
    const nb::gil_scoped_release no_gil;
    return reflected ? run(other, x) : run(x, other);
  };
}

// A binary op with a Python number or an array as its second operand.
struct WithOther {
  BinaryOp run;

  auto truth() const {
    return [run = run](const Tensor& a, bool b) {
      return run(a, full(Shape{}, b ? 1 : 0, DType::boolean, a.device()));
    };
  }
  auto integer() const {
    return [run = run](const Tensor& a, int64_t b) { return with_integer(run, a, b); };
  }
  auto number() const {
    return [run = run](const Tensor& a, double b) { return run(a, scalar_for(a, b)); };
  }
};

void bind_elementwise(nb::module_& m, TensorClass& tensor) {
  for (const BinaryEntry& entry : elementwise_table) {
    const WithOther with{entry.run};
    def_op(m, tensor, entry.name, entry.run, "other"_a, summary(entry.name).c_str());
    def_op(m, tensor, entry.name, with.integer(), "other"_a);
    def_op(m, tensor, entry.name, with.number(), "other"_a);
    m.def(entry.name, with_array(entry.run), "input"_a, "other"_a);
    tensor.def(entry.name, with_array(entry.run), "other"_a);
  }
}

// An operator returns NotImplemented for operands it does not know; a function raises TypeError.
void bind_operators(TensorClass& tensor) {
  for (const UnaryOperator& entry : unary_operators)
    tensor.def(entry.name, entry.run, ReleaseGil());
  for (const BinaryEntry& entry : binary_operators) {
    const WithOther with{entry.run};
    tensor.def(entry.name, entry.run, nb::is_operator(), ReleaseGil())
        .def(entry.name, with.truth(), nb::is_operator(), ReleaseGil())
        .def(entry.name, with.integer(), nb::is_operator(), ReleaseGil())
        .def(entry.name, with.number(), nb::is_operator(), ReleaseGil())
        .def(entry.name, with_array(entry.run), nb::is_operator());
  }
  tensor.def("__matmul__", static_cast<BinaryOp>(matmul), nb::is_operator(), ReleaseGil())
      .def("__matmul__", with_array(matmul), nb::is_operator());
}

// add and sub with the second operand scaled.
void bind_scaled(nb::module_& m, TensorClass& tensor) {
  for (const BinaryEntry& entry : {BinaryEntry{"add", add}, BinaryEntry{"sub", sub}}) {
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

constexpr BinaryEntry reflected_operators[] = {
    {"__rxor__", bitwise_xor}, {"__radd__", add},
    {"__rsub__", sub},         {"__rmul__", mul},
    {"__rtruediv__", div},     {"__rpow__", pow},
    {"__rmod__", remainder},   {"__rfloordiv__", floor_divide},
    {"__rand__", bitwise_and}, {"__ror__", bitwise_or},
};

void bind_reflected(TensorClass& tensor) {
  for (const BinaryEntry& entry : reflected_operators) {
    const auto run = entry.run;
    tensor
        .def(
            entry.name,
            [run](const Tensor& b, bool a) {
              return run(full(Shape{}, a ? 1 : 0, DType::boolean, b.device()), b);
            },
            nb::is_operator(), ReleaseGil())
        .def(
            entry.name, [run](const Tensor& b, int64_t a) { return run(integer_for(b, a), b); },
            nb::is_operator(), ReleaseGil())
        .def(
            entry.name, [run](const Tensor& b, double a) { return run(scalar_for(b, a), b); },
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
  constexpr auto split_evenly =
      static_cast<std::vector<Tensor> (*)(const Tensor&, int64_t, int64_t)>(split);
  constexpr auto split_by_sizes =
      static_cast<std::vector<Tensor> (*)(const Tensor&, const std::vector<int64_t>&, int64_t)>(
          split);
  for (const AxisNames& names : axis_names) {
    const auto first_axis = nb::arg(names.axis) = 0;
    m.def(
        "cat", [](const std::vector<Tensor>& tensors, int64_t dim) { return cat(tensors, dim); },
        "tensors"_a, first_axis, ReleaseGil(), summary("cat").c_str());
    m.def(
        "stack",
        [](const std::vector<Tensor>& tensors, int64_t dim) { return stack(tensors, dim); },
        "tensors"_a, first_axis, ReleaseGil(), summary("stack").c_str());
    def_op(m, tensor, "split", split_evenly, "split_size"_a, first_axis, summary("split").c_str());
    def_op(m, tensor, "split", split_by_sizes, "split_sizes"_a, first_axis);
    def_op(m, tensor, "squeeze", &squeeze_if_one, nb::arg(names.axis), summary("squeeze").c_str());
  }
  def_op(m, tensor, "squeeze", &squeeze_all);
}

Tensor gelu_named(const Tensor& x, const std::string& approximate) {
  if (approximate != "none" && approximate != "tanh") {
    fail("gelu",
         {.argument = "approximate", .expected = "none or tanh", .found = "'" + approximate + "'"});
  }
  return gelu(x, approximate == "tanh" ? Gelu::tanh : Gelu::erf);
}

}  // namespace

void bind_ops(nb::module_& m, TensorClass& tensor) {
  bind_elementwise(m, tensor);
  bind_operators(tensor);
  bind_reflected(tensor);
  bind_scaled(m, tensor);
  bind_shapes(m, tensor);
  for (const char* name : {"clamp", "clip"})
    def_op(m, tensor, name, &clamp, "min"_a = -std::numeric_limits<double>::infinity(),
           "max"_a = std::numeric_limits<double>::infinity(), summary("clamp").c_str());
  def_op(m, tensor, "gelu", &gelu_named, "approximate"_a = "none", summary("gelu").c_str());
  def_op(m, tensor, "dropout", &dropout, "p"_a = 0.5, "training"_a = true,
         summary("dropout").c_str());
  m.def("_where", &where, "condition"_a, "input"_a, "other"_a, ReleaseGil());
  m.def(
      "_einsum",
      [](const std::string& equation, const std::vector<Tensor>& operands) {
        return einsum(equation, operands);
      },
      "equation"_a, "operands"_a, ReleaseGil());
}

}  // namespace binade::python
