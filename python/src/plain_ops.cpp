#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>

#include "binade/ops/described_ops.h"
#include "bindings.h"
#include "enums.h"

// The plain ops of tensor/ops.def, but for those of two operands that may be numbers (ops.cpp).
namespace binade::python {
namespace {

// A parameter without and with a default.
template <class T>
struct Required {};
template <class T>
struct Optional {
  T otherwise;
};
template <class T>
Required<T> parameter() {
  return {};
}
template <class T>
Optional<T> parameter(const std::type_identity_t<T>& otherwise) {
  return {otherwise};
}

// The type that an argument has in Python's call, and what it means.
template <class P>
struct Crossing;

template <class T>
struct Crossing<Required<T>> {
  using Python = T;
  static const T& cpp(const T& given) { return given; }
};
template <>
struct Crossing<Required<std::vector<int64_t>>> {
  using Python = Shape;
  static std::vector<int64_t> cpp(const Shape& given) { return {given.begin(), given.end()}; }
};

template <class T>
struct Crossing<Optional<T>> : Crossing<Required<T>> {
  static nb::object otherwise(const T& value) { return nb::cast(value); }
};
template <>
struct Crossing<Optional<Tensor>> {
  using Python = MaybeTensor;
  static Tensor cpp(const MaybeTensor& given) { return or_undefined(given); }
  static nb::object otherwise(const Tensor&) { return nb::none(); }
};
// Axes and lists: one number or several, or None.
template <>
struct Crossing<Optional<std::vector<int64_t>>> {
  using Python = std::optional<Shape>;
  static std::vector<int64_t> cpp(const std::optional<Shape>& given) {
    return given ? std::vector<int64_t>(given->begin(), given->end()) : std::vector<int64_t>{};
  }
  static nb::object otherwise(const std::vector<int64_t>&) { return nb::none(); }
};
template <>
struct Crossing<Optional<Axes>> : Crossing<Optional<std::vector<int64_t>>> {};
template <>
struct Crossing<Optional<Order>> {
  using Python = bool;
  // The flag is `largest` or `descending`: true is descending either way.
  static Order cpp(bool given) { return given ? Order::descending : Order::ascending; }
  static nb::object otherwise(Order order) { return nb::bool_(order == Order::descending); }
};
template <>
struct Crossing<Optional<Reduce>> {
  using Python = std::string;
  static Reduce cpp(const std::string& given) { return parse_reduce(given); }
  static nb::object otherwise(Reduce) { return nb::str("mean"); }
};
template <>
struct Crossing<Optional<Activation>> {
  using Python = std::string;
  static Activation cpp(const std::string& given) { return parse_activation(given); }
  static nb::object otherwise(Activation) { return nb::str("none"); }
};

template <class T>
const T& to_python(const T& result) {
  return result;
}
ValuesAndIndices to_python(const Sorted& sorted) { return {sorted.values, sorted.index}; }

// Names are literals, so that they end in 0 and outlive the module.
template <class T>
nb::arg argument(const char* name, const Required<T>&) {
  return nb::arg(name);
}
template <class T>
nb::arg_v argument(const char* name, const Optional<T>& parameter) {
  return nb::arg(name) = Crossing<Optional<T>>::otherwise(parameter.otherwise);
}

// The arguments for nanobind, with those from `positional` on by name only.
template <size_t positional, class Tuple, size_t... before, size_t... after>
auto with_keywords(const Tuple& all, std::index_sequence<before...>,
                   std::index_sequence<after...>) {
  if constexpr (sizeof...(after) == 0) {
    return all;
  } else {
    return std::make_tuple(std::get<before>(all)..., nb::kw_only(),
                           std::get<positional + after>(all)...);
  }
}

class Binder {
 public:
  Binder(nb::module_& m, TensorClass& tensor) : m_(m), tensor_(tensor) {}

  // `positional`: python_positional() of the parameters.
  template <size_t positional, class Result, class... A, class... P>
  void bind(const char* c_name, Result (*run)(const Tensor&, A...), const P&... parameters) {
    const Signature& op = *find_signature(c_name);
    if (!is_plain_in_python(op)) return;
    const std::span<const Parameter> described = op.parameters();
    const bool has_axis = std::any_of(described.begin(), described.end(), [](const Parameter& one) {
      return !numpy_name(one).empty();
    });
    const auto call = [run](const Tensor& x, const typename Crossing<P>::Python&... given) {
      return to_python(run(x, Crossing<P>::cpp(given)...));
    };
    define<positional>(op, call, false, std::index_sequence_for<P...>(), parameters...);
    if (has_axis)
      define<positional>(op, call, true, std::index_sequence_for<P...>(), parameters...);
  }

 private:
  template <size_t positional, class Call, size_t... i, class... P>
  void define(const Signature& op, const Call& call, bool numpy, std::index_sequence<i...>,
              const P&... parameters) {
    const std::span<const Parameter> described = op.parameters();
    [[maybe_unused]] const auto name_of = [&](const Parameter& one) {
      const std::string_view other = numpy_name(one);
      return (numpy && !other.empty() ? other : python_name(op, one)).data();
    };
    const auto arguments =
        with_keywords<positional>(std::make_tuple(argument(name_of(described[i]), parameters)...),
                                  std::make_index_sequence<positional>(),
                                  std::make_index_sequence<sizeof...(P) - positional>());
    const std::string summary = numpy ? "" : python_summary(op);
    std::apply(
        [&](const auto&... all) {
          m_.def(op.name.data(), call, nb::arg(python_self(op).data()), all..., ReleaseGil(),
                 summary.c_str());
          if (op.form != OpForm::function)
            tensor_.def(op.name.data(), call, all..., ReleaseGil(), summary.c_str());
        },
        arguments);
  }

  nb::module_& m_;
  TensorClass& tensor_;
};

}  // namespace

void bind_plain_ops(nb::module_& m, TensorClass& tensor) {
  Binder binder(m, tensor);
// clang-format off
#define BINADE_TYPE(type, name, ...) type
#define BINADE_PARAMETER(type, name, ...) Parameter{#type, #name, #__VA_ARGS__}
#define BINADE_DEFAULT(type, name, ...) parameter<std::remove_cvref_t<type>>(__VA_ARGS__)
#define BINARY(name, cast, gradient, numbers, form, summary)
#define OVERLOAD(name, c_name, cast, gradient, form, summary, result, self, ...)                  \
  binder.bind<python_positional(                                                                  \
      std::initializer_list<Parameter>{BINADE_LIST(BINADE_PARAMETER, __VA_ARGS__)})>(             \
      #c_name,                                                                                    \
      static_cast<result (*)(BINADE_LIST(BINADE_TYPE, (const Tensor&, self) __VA_OPT__(,) __VA_ARGS__))>( \
          binade::name) __VA_OPT__(,)                                                             \
      BINADE_LIST(BINADE_DEFAULT, __VA_ARGS__));
#define OP(name, ...) OVERLOAD(name, name, __VA_ARGS__)
#include "binade/tensor/ops.def"
#undef BINADE_TYPE
#undef BINADE_PARAMETER
#undef BINADE_DEFAULT
  // clang-format on
  std::vector<std::string> in_place;
  for (const Signature& op : signatures())
    if (op.form == OpForm::in_place && op.name == op.c_name) in_place.emplace_back(op.name);
  m.attr("_in_place_ops") = nb::cast(in_place);
}

}  // namespace binade::python
