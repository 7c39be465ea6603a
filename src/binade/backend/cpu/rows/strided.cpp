#include "binade/backend/cpu/rows/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "binade/backend/cast.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

// Types that formats/convert.h converts to and from float in bulk.
template <class T>
constexpr bool has_bulk_conversion = std::is_class_v<T>;

// Below this number of elements the call costs more than vector code saves.
constexpr int64_t bulk = 16;

template <class T, class S>
void read_typed(const S* in, int64_t stride, int64_t n, T* out) {
  if (stride == 0) {
    std::fill_n(out, n, cast<T>(*in));
  } else if (stride == 1) {
    if constexpr (std::is_same_v<T, S>) {
      std::memcpy(out, in, static_cast<size_t>(n) * sizeof(T));
    } else if constexpr (has_bulk_conversion<S> && std::is_same_v<T, float>) {
      if (n >= bulk) return formats::widen(in, out, static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) out[i] = in[i];
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = cast<T>(in[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = cast<T>(in[i * stride]);
  }
}

template <class T, class S>
void write_typed(const T* values, S* out, int64_t stride, int64_t n) {
  if (stride == 1) {
    if constexpr (std::is_same_v<T, S>) {
      std::memcpy(out, values, static_cast<size_t>(n) * sizeof(T));
    } else if constexpr (has_bulk_conversion<S> && std::is_same_v<T, float>) {
      if (n >= bulk) return formats::narrow(values, out, static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) out[i] = S(values[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = cast<S>(values[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * stride] = cast<S>(values[i]);
  }
}

}  // namespace

Layout::Layout(const TensorView& view) {
  for (int axis = 0; axis < view.rank(); ++axis) {
    const int64_t size = view.shape[axis];
    const int64_t stride = view.strides[axis];
    if (size == 1) continue;
    if (rank > 0 && strides[rank - 1] == size * stride) {
      sizes[rank - 1] *= size;
      strides[rank - 1] = stride;
    } else {
      sizes[rank] = size;
      strides[rank++] = stride;
    }
  }
  if (rank == 0) {
    rank = 1;
    sizes[0] = 1;
    strides[0] = 1;
  }
}

int64_t Layout::offset_of(int64_t index) const {
  int64_t offset = 0;
  for (int axis = rank - 1; axis > 0; --axis) {
    offset += index % sizes[axis] * strides[axis];
    index /= sizes[axis];
  }
  return offset + index * strides[0];
}

void sort_axes(std::initializer_list<TensorView*> views) {
  const TensorView& output = *views.begin()[views.size() - 1];
  if (output.is_dense()) return;
  // Insertion sort: stable, and rank is at most 8.
  for (int axis = 1; axis < output.rank(); ++axis) {
    for (int at = axis; at > 0; --at) {
      if (std::abs(output.strides[at - 1]) >= std::abs(output.strides[at])) break;
      for (TensorView* view : views) {
        std::swap(view->shape[at - 1], view->shape[at]);
        std::swap(view->strides[at - 1], view->strides[at]);
      }
    }
  }
}

void merge_axes(std::initializer_list<TensorView*> views) {
  const Shape shape = (*views.begin())->shape;
  Shape merged;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    bool even = merged.rank() > 0;
    for (const TensorView* view : views) {
      even = even && view->strides[merged.rank() - 1] == shape[axis] * view->strides[axis];
    }
    if (!even) merged.push_back(1);
    merged[merged.rank() - 1] *= shape[axis];
    // Axes move to the front, over those already merged.
    for (TensorView* view : views) view->strides[merged.rank() - 1] = view->strides[axis];
  }
  if (merged.rank() == 0) merged.push_back(1);
  for (TensorView* view : views) {
    if (shape.rank() == 0) view->strides = {0};
    view->shape = merged;
    view->strides = Strides(std::span(view->strides.begin(), static_cast<size_t>(merged.rank())));
  }
}

TensorView without_axis(const TensorView& view, int axis) {
  TensorView result = view;
  result.shape.erase(axis);
  result.strides.erase(axis);
  return result;
}

int64_t offset_in(const TensorView& view, int64_t index) {
  int64_t offset = 0;
  for (int axis = view.rank() - 1; axis >= 0; --axis) {
    offset += index % view.shape[axis] * view.strides[axis];
    index /= view.shape[axis];
  }
  return offset;
}

template <class T>
void read_run(const TensorView& x, int64_t offset, int64_t stride, int64_t n, T* out) {
  dispatch(x.dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    read_typed(static_cast<const S*>(x.as<S>()) + offset, stride, n, out);
  });
}

template <class T>
void write_run(const T* values, const TensorView& y, int64_t offset, int64_t stride, int64_t n) {
  dispatch(y.dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    write_typed(values, y.as<S>() + offset, stride, n);
  });
}

template <class T>
const T* Source<T>::read(int64_t start, int64_t n) {
  if (layout_.rank == 1 && layout_.strides[0] == 0) {
    if (!filled_) read_run(view_, offset_, 0, block_size, scratch_);
    filled_ = true;
    return scratch_;
  }
  const T* values = scratch_;
  layout_.for_runs(start, n, [&](int64_t position, int64_t offset, int64_t stride, int64_t count) {
    if (count == n) {
      values = load_run(view_, offset_ + offset, stride, n, scratch_);
    } else {
      read_run(view_, offset_ + offset, stride, count, scratch_ + position);
    }
  });
  return values;
}

template <class T>
T* Sink<T>::target(int64_t start, int64_t n) {
  direct_ = false;
  T* in_place = scratch_;
  if (view_.dtype != dtype_of<T>) return in_place;
  const int inner = layout_.rank - 1;
  const bool one_run = layout_.strides[inner] == 1 &&
                       (inner == 0 || start % layout_.sizes[inner] + n <= layout_.sizes[inner]);
  if (!one_run) return in_place;
  layout_.for_runs(start, n, [&](int64_t, int64_t offset, int64_t, int64_t) {
    in_place = view_.as<T>() + offset;
    direct_ = true;
  });
  return in_place;
}

template <class T>
void Sink<T>::commit(int64_t start, int64_t n) {
  if (direct_) return;
  layout_.for_runs(start, n, [&](int64_t position, int64_t offset, int64_t stride, int64_t count) {
    write_run(scratch_ + position, view_, offset, stride, count);
  });
}

template void read_run(const TensorView&, int64_t, int64_t, int64_t, bool*);
template void read_run(const TensorView&, int64_t, int64_t, int64_t, float*);
template void read_run(const TensorView&, int64_t, int64_t, int64_t, double*);
template void read_run(const TensorView&, int64_t, int64_t, int64_t, int64_t*);
template void write_run(const float*, const TensorView&, int64_t, int64_t, int64_t);
template void write_run(const double*, const TensorView&, int64_t, int64_t, int64_t);
template void write_run(const int64_t*, const TensorView&, int64_t, int64_t, int64_t);
template class Source<bool>;
template class Source<float>;
template class Source<double>;
template class Source<int64_t>;
template class Sink<float>;
template class Sink<double>;
template class Sink<int64_t>;

}  // namespace binade::backend::cpu
