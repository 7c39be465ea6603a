#include <algorithm>
#include <tuple>
#include <type_traits>

#include "binade/autograd/signature.h"
#include "binade/c/op_table.h"
#include "binade/ops/described_ops.h"

// The plain ops of tensor/ops.def whose result is a tensor.
namespace binade::c {
namespace {

template <class Choice>
struct Named {
  const char* name;
  Choice choice;
};

template <class Choice>
constexpr Named<Choice> choices[] = {};
template <>
constexpr Named<Reduce> choices<Reduce>[] = {
    {"mean", Reduce::mean}, {"sum", Reduce::sum}, {"none", Reduce::none}};
template <>
constexpr Named<Gelu> choices<Gelu>[] = {{"erf", Gelu::erf}, {"tanh", Gelu::tanh}};
template <>
constexpr Named<Activation> choices<Activation>[] = {{"none", Activation::none},
                                                     {"relu", Activation::relu},
                                                     {"gelu", Activation::gelu},
                                                     {"gelu_tanh", Activation::gelu_tanh},
                                                     {"silu", Activation::silu}};

template <class Choice>
Choice choice_named(const char* option, const std::string& text) {
  std::string names;
  for (const auto& [name, choice] : choices<Choice>) {
    if (text == name) return choice;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fail("bnd_op", {.argument = "option " + std::string(option), .expected = names, .found = text});
}

DType dtype_named(const std::string& text) {
  const auto* found = std::find_if(std::begin(all_dtypes), std::end(all_dtypes),
                                   [&](DType dtype) { return name(dtype) == text; });
  if (found == std::end(all_dtypes))
    fail("bnd_op", {.argument = "option dtype", .expected = "f32, f16, bf16, ...", .found = text});
  return *found;
}

template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};

// Reads the arguments of one call in their order: tensors from the inputs, others from the options.
class Arguments {
 public:
  Arguments(Inputs inputs, const Options& options) : inputs_(inputs), options_(options) {}

  template <class T>
  T next(const char* name) {
    if constexpr (std::is_same_v<T, Tensor>) {
      return inputs_[used_++];
    } else {
      return read<T>(name);
    }
  }
  template <class T>
  T next(const char* name, const std::type_identity_t<T>& otherwise) {
    if constexpr (std::is_same_v<T, Tensor>) {
      return inputs_[used_++];  // undefined if it was left out
    } else if constexpr (std::is_same_v<T, Order>) {
      const bool descends = otherwise == Order::descending;
      const bool given = options_.integer(descends ? "largest" : "descending", descends) != 0;
      return given ? Order::descending : Order::ascending;
    } else {
      return options_.has(name) ? read<typename Unwrapped<T>::type>(name) : otherwise;
    }
  }

 private:
  template <class T>
  auto read(const char* name) const {
    if constexpr (std::is_same_v<T, double>) {
      return options_.number(name);
    } else if constexpr (std::is_same_v<T, bool>) {
      return options_.flag(name);
    } else if constexpr (std::is_integral_v<T>) {
      return options_.integer(name);
    } else if constexpr (std::is_same_v<T, Shape>) {
      return options_.shape(name);
    } else if constexpr (std::is_same_v<T, DType>) {
      return dtype_named(options_.text(name));
    } else if constexpr (std::is_enum_v<T>) {
      return choice_named<T>(name, options_.text(name));
    } else {
      return T(options_.list(name));
    }
  }

  Inputs inputs_;
  const Options& options_;
  size_t used_ = 0;
};

Tensor tensor_of_result(const Tensor& result) { return result; }
Tensor tensor_of_result(const Sorted& result) { return result.values; }

// Adds an op, unless C has no form of its result. `Run` calls it with the arguments given.
template <class Result, class Run>
void add_entry(std::vector<Entry>& table, std::string_view c_name, Run) {
  if constexpr (std::is_same_v<Result, Tensor> || std::is_same_v<Result, Sorted>) {
    table.push_back({c_signature(*find_signature(c_name)), [](Inputs x, const Options& o) {
                       return tensor_of_result(Run{}(Arguments(x, o)));
                     }});
  }
}

// The braces of the tuple read the arguments in their order.
#define BINADE_NEXT(type, name, ...) \
  given.next<std::remove_cvref_t<type>>(#name __VA_OPT__(, ) __VA_ARGS__)
#define OVERLOAD(name, c_name, cast, gradient, form, summary, result, self, ...)           \
  add_entry<result>(table, #c_name, [](Arguments given) {                                  \
    const std::tuple arguments{                                                            \
        BINADE_LIST(BINADE_NEXT, (const Tensor&, self)__VA_OPT__(, ) __VA_ARGS__)};        \
    return std::apply([](const auto&... all) { return binade::name(all...); }, arguments); \
  });
#define OP(name, ...) OVERLOAD(name, name, __VA_ARGS__)

void add_entries(std::vector<Entry>& table) {
#include "binade/tensor/ops.def"
}
#undef BINADE_NEXT

}  // namespace

std::vector<Entry> plain_op_table() {
  std::vector<Entry> table;
  add_entries(table);
  return table;
}

}  // namespace binade::c
