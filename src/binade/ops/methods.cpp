#include <limits>

#include "binade/ops/described_ops.h"
#include "binade/ops/in_place.h"

// The methods of tensor/ops.def and of tensor/methods.def.
namespace binade {
namespace {

// The order of kinds: what a later one holds, an earlier one may not.
int kind_order(DType dtype) { return dtype == DType::boolean ? 0 : is_floating(dtype) ? 2 : 1; }

const Tensor* as_tensor(const Tensor& x) { return &x; }
template <class T>
const Tensor* as_tensor(const T&) {
  return nullptr;
}

// x.op_(arguments): computes op(x, arguments), then writes it into x.
class InPlace {
 public:
  template <class... Arguments>
  InPlace(const char* op, const Tensor& x, const Arguments&... arguments) : op_(op), x_(x) {
    ops::require_defined(op, "x", x);
    for (const Tensor* one : {&x, as_tensor(arguments)...})
      records_ |= one != nullptr && one->defined() && ops::write_records(x, *one);
    ops::require_writable(op, x, records_);
  }

  // An argument as the op reads it. A backward may need values that the write changes.
  Tensor read(const Tensor& argument) const {
    const bool changes = argument.defined() && argument.storage() == x_.storage();
    return records_ && changes ? clone(argument) : argument;
  }
  template <class T>
  const T& read(const T& argument) const {
    return argument;
  }

  void write(const Tensor& result) const {
    if (result.shape() != x_.shape() || kind_order(result.dtype()) > kind_order(x_.dtype()))
      fail(op_, {.argument = "x",
                 .expected = "one that holds the result, " + describe(result),
                 .found = describe(x_),
                 .hint = "compute a new tensor"});
    ops::write(x_, result, true);
  }

 private:
  const char* op_;
  const Tensor& x_;
  bool records_ = false;
};

// The indices of an axis, for index_put_().
std::vector<IndexEntry> entries_at(const Tensor& x, int64_t axis, const Tensor& index) {
  std::vector<IndexEntry> entries(
      static_cast<size_t>(normalize_axis("index_copy_", axis, x.rank())), Slice());
  entries.emplace_back(index);
  return entries;
}

}  // namespace

#define BINADE_READ(type, name, ...) in_place.read(name)
#define BINADE_FORM_function(result, name, ...)
#define BINADE_FORM_method(result, name, ...)                                            \
  result Tensor::name(BINADE_LIST(BINADE_DEFINED, __VA_ARGS__)) const {                  \
    return binade::name(*this __VA_OPT__(, ) BINADE_LIST(BINADE_ARGUMENT, __VA_ARGS__)); \
  }
#define BINADE_FORM_in_place(result, name, ...)                                                   \
  BINADE_FORM_method(result, name, __VA_ARGS__)                                                   \
      const Tensor& Tensor::name##_(BINADE_LIST(BINADE_DEFINED, __VA_ARGS__)) const {             \
    const InPlace in_place(#name "_",                                                             \
                           *this __VA_OPT__(, ) BINADE_LIST(BINADE_ARGUMENT, __VA_ARGS__));       \
    in_place.write(                                                                               \
        binade::name(in_place.read(*this) __VA_OPT__(, ) BINADE_LIST(BINADE_READ, __VA_ARGS__))); \
    return *this;                                                                                 \
  }
#include "binade/tensor/op_methods.def"
#undef BINADE_READ

#define METHOD(result, name, parameters, arguments) \
  result Tensor::name parameters const { return binade::name arguments; }
#define WRITE(name, parameters, expression)     \
  const Tensor& Tensor::name parameters const { \
    expression;                                 \
    return *this;                               \
  }
#include "binade/tensor/libtorch_methods.def"
#include "binade/tensor/methods.def"
#undef METHOD
#undef WRITE

}  // namespace binade
