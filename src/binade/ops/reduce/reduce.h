#pragma once

#include <optional>
#include <tuple>

#include "binade/tensor/arguments.h"
#include "binade/tensor/tensor.h"

namespace binade {

// Sums accumulate in f32 whatever x's type is; the result has x's type unless `dtype` names
// another. Integers and bools sum to i64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep = false,
           std::optional<DType> dtype = {});
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep = false,
            std::optional<DType> dtype = {});
// Integers give i64.
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep = false);
// Largest and smallest element; NaN if any is. Equal extremes share the gradient equally. Integers
// keep their type.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keep = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep = false);
// max or min along an axis: a Tensor of the values, or auto [values, indices] = max(x, 1).
class Extremum : public Tensor {
 public:
  using Find = Tensor (*)(const Tensor& x, int64_t axis, bool keep);  // of the indices
  Extremum(const Tensor& values, const Tensor& x, int64_t axis, bool keep, Find find)
      : Tensor(values), x_(x.detach()), axis_(axis), keep_(keep), find_(find) {}

  template <size_t I>
  Tensor get() const {
    static_assert(I < 2);
    if constexpr (I == 0) return *this;
    return find_(x_, axis_, keep_);
  }
  // std::tie(values, indices) = max(x, 1).
  operator std::tuple<Tensor&, Tensor&>() {
    index_ = get<1>();
    return {*this, index_};
  }

 private:
  Tensor index_;
  Tensor x_;
  int64_t axis_;
  bool keep_;
  Find find_;
};
Extremum max(const Tensor& x, int64_t axis, bool keep = false);
Extremum min(const Tensor& x, int64_t axis, bool keep = false);
// sum((x - mean)^2) / (count - correction), two-pass and in f64.
Tensor var(const Tensor& x, const Axes& axes = {}, bool keep = false, double correction = 1);
// The square root of var(), with a zero gradient where that is 0. Inside `using namespace binade`
// its name is ambiguous with the standard library's: write binade::std(x).
Tensor std(const Tensor& x, const Axes& axes = {}, bool keep = false, double correction = 1);
// Whether any (every) element is not zero: bool.
Tensor any(const Tensor& x, const Axes& axes = {}, bool keep = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keep = false);
// (sum |x|^p)^(1/p); p may be infinite.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keep = false);
// Index (i64) of the first largest or smallest element along an axis.
Tensor argmax(const Tensor& x, int64_t axis = -1, bool keep = false);
Tensor argmin(const Tensor& x, int64_t axis = -1, bool keep = false);
// Running sums and products along an axis. Sums of integers are i64.
Tensor cumsum(const Tensor& x, int64_t axis);
Tensor cumprod(const Tensor& x, int64_t axis);

}  // namespace binade

namespace std {
template <>
struct tuple_size<binade::Extremum> : integral_constant<size_t, 2> {};
template <size_t I>
struct tuple_element<I, binade::Extremum> {
  using type = binade::Tensor;
};
// std::get<1>(max(x, 1)), as LibTorch's tuples have it.
template <size_t I>
binade::Tensor get(const binade::Extremum& x) {  // NOLINT: of our own type
  return x.get<I>();
}
}  // namespace std
