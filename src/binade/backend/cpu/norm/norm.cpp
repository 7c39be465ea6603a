#include "binade/backend/norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/norm/norm_rows.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

template <class T>
using Row = std::vector<T>;

// Rows a thread takes at a time, so that it has some thousand elements to work on.
int64_t grain_for(int64_t width) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width));
}

// A parameter as T for the whole kernel; `absent` stands for one that is not there.
template <class T>
class Parameter {
 public:
  Parameter(const TensorView& view, int64_t n, T absent) {
    if (view.present) {
      copy_.resize(view.dtype == dtype_of<T> ? 0 : static_cast<size_t>(n));
      values_ = load(view, 0, n, copy_.data());
    } else {
      copy_.assign(static_cast<size_t>(n), absent);
      values_ = copy_.data();
    }
  }
  const T* data() const { return values_; }
  T operator[](int64_t i) const { return values_[i]; }

 private:
  Row<T> copy_;
  const T* values_;
};

template <class T>
T value_at(const TensorView& view, int64_t index) {
  T scratch;
  return *load(view, index, 1, &scratch);
}

template <class T>
void store_at(T value, const TensorView& view, int64_t index, bool accumulate = false) {
  if (view.dtype == dtype_of<T> && !accumulate) {
    view.as<T>()[index] = value;
  } else {
    store(&value, view, index, 1, accumulate);
  }
}

template <class T>
T inverse_deviation(T square_sum, int64_t count, double eps) {
  return T{1} / std::sqrt(square_sum / static_cast<T>(count) + static_cast<T>(eps));
}

// ---- layer and rms norm ----

template <class T>
void forward_as(NormKind kind, const TensorView& x, const TensorView& residual,
                const TensorView& weight, const TensorView& bias, double eps, const TensorView& sum,
                const TensorView& y, const TensorView& mean, const TensorView& rstd) {
  const int64_t width = x.shape.back();
  const int64_t rows = width == 0 ? 0 : x.numel() / width;
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> w(weight, width, T{1}), b(bias, width, T{0});
  const T* offset = bias.present ? b.data() : nullptr;
  parallel_for(rows, grain_for(width), [&](int64_t begin, int64_t end) {
    Row<T> x_scratch(width), other_scratch(width), y_scratch(width);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * width;
      const T* in = load(x, at, width, x_scratch.data());
      bool summed = false;
      T row_sum = 0;
      if (residual.present) {
        const T* other = load(residual, at, width, other_scratch.data());
        T* total = row_target(sum, at, y_scratch.data());
        row_sum = math.add(in, other, width, total);
        store(total, sum, at, width);
        // As rounded: what a separate add would leave.
        in = load(sum, at, width, x_scratch.data());
        summed = in == total;
      }
      T center = 0;
      if (kind == NormKind::layer) {
        if (!summed) row_sum = math.sum(in, width);
        center = row_sum / static_cast<T>(width);
        if (mean.present) store_at(center, mean, row);
      }
      const T scale = inverse_deviation(math.square_sum(in, center, width), width, eps);
      if (rstd.present) store_at(scale, rstd, row);
      if (!y.present) continue;
      T* out = row_target(y, at, y_scratch.data());
      math.normalize(in, center, scale, w.data(), offset, width, out);
      store(out, y, at, width);
    }
  });
}

void forward(NormKind kind, TensorView x, TensorView residual, TensorView weight, TensorView bias,
             double eps, TensorView sum, TensorView y, TensorView mean, TensorView rstd) {
  with_compute_type("norm", x.dtype, [&](auto tag) {
    forward_as<typename decltype(tag)::type>(kind, x, residual, weight, bias, eps, sum, y, mean,
                                             rstd);
  });
}

// Parameter gradients as partial sums over chunks of rows. How rows fall into chunks depends on
// their number alone, so the result does not depend on the threads.
template <class T>
class PartialSums {
 public:
  PartialSums(int64_t rows, int64_t width)
      : width_(width),
        rows_per_chunk_(std::max<int64_t>(4, (rows + max_chunks - 1) / max_chunks)),
        chunks_((rows + rows_per_chunk_ - 1) / rows_per_chunk_),
        sums_(static_cast<size_t>(2 * chunks_ * width)) {}

  int64_t chunks() const { return chunks_; }
  int64_t rows_per_chunk() const { return rows_per_chunk_; }
  T* weight(int64_t chunk) { return sums_.data() + 2 * chunk * width_; }
  T* bias(int64_t chunk) { return weight(chunk) + width_; }

  void finish(const TensorView& dweight, const TensorView& dbias, bool accumulate) {
    if (dweight.present) finish_one(0, dweight, accumulate);
    if (dbias.present) finish_one(1, dbias, accumulate);
  }

 private:
  static constexpr int64_t max_chunks = 64;

  void finish_one(int64_t which, const TensorView& view, bool accumulate) {
    parallel_for(width_, 512, [&](int64_t begin, int64_t end) {
      Row<T> total(static_cast<size_t>(end - begin));
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        const T* part = sums_.data() + (2 * chunk + which) * width_ + begin;
        for (int64_t i = 0; i < end - begin; ++i) total[i] += part[i];
      }
      store(total.data(), view, begin, end - begin, accumulate);
    });
  }

  int64_t width_, rows_per_chunk_, chunks_;
  Row<T> sums_;
};

template <class T>
void backward_as(NormKind kind, const TensorView& dy, const TensorView& dsum, const TensorView& x,
                 const TensorView& weight, const TensorView& mean, const TensorView& rstd,
                 const TensorView& dx, bool accumulate_dx, const TensorView& dweight,
                 const TensorView& dbias, bool accumulate_parameters) {
  const int64_t width = x.shape.back();
  const int64_t rows = width == 0 ? 0 : x.numel() / width;
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> w(weight, width, T{1});
  const bool parameters = dweight.present || dbias.present;
  PartialSums<T> sums(rows, parameters ? width : 0);
  parallel_for(sums.chunks(), 1, [&](int64_t begin, int64_t end) {
    Row<T> dy_scratch(width), x_scratch(width), dx_scratch(width), other_scratch(width);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * sums.rows_per_chunk();
      const int64_t last = std::min(rows, first + sums.rows_per_chunk());
      for (int64_t row = first; row < last; ++row) {
        const int64_t at = row * width;
        const T* g = load(dy, at, width, dy_scratch.data());
        const T* in = load(x, at, width, x_scratch.data());
        const T center = kind == NormKind::layer ? value_at<T>(mean, row) : T{0};
        const T scale = value_at<T>(rstd, row);
        T plain, centered;
        math.gradient_sums(g, w.data(), in, center, scale, width, &plain, &centered,
                           parameters ? sums.weight(chunk) : nullptr, sums.bias(chunk));
        if (!dx.present) continue;
        const T count = static_cast<T>(width);
        const T slope = -scale * scale * scale * (centered / count);
        const T offset = kind == NormKind::layer ? -scale * (plain / count) : T{0};
        T* out = accumulate_dx ? dx_scratch.data() : row_target(dx, at, dx_scratch.data());
        if (dsum.present) {
          const T* other = load(dsum, at, width, other_scratch.data());
          math.gradient_plus(g, w.data(), in, center, scale, slope, offset, other, width, out);
        } else {
          math.gradient(g, w.data(), in, center, scale, slope, offset, width, out);
        }
        store(out, dx, at, width, accumulate_dx);
      }
    }
  });
  sums.finish(dweight, dbias, accumulate_parameters);
}

void backward(NormKind kind, TensorView dy, TensorView dsum, TensorView x, TensorView weight,
              TensorView mean, TensorView rstd, TensorView dx, bool accumulate_dx,
              TensorView dweight, TensorView dbias, bool accumulate_parameters) {
  with_compute_type("norm_backward", x.dtype, [&](auto tag) {
    backward_as<typename decltype(tag)::type>(kind, dy, dsum, x, weight, mean, rstd, dx,
                                              accumulate_dx, dweight, dbias, accumulate_parameters);
  });
}

// ---- batch norm: a channel is n rows of `inner` elements; its sums are joined in f64 ----

struct Channels {
  explicit Channels(const TensorView& x) : n(x.shape[0]), channels(x.shape[1]), inner(x.shape[2]) {}
  int64_t at(int64_t i, int64_t channel) const { return (i * channels + channel) * inner; }
  int64_t per_channel() const { return n * inner; }

  int64_t n, channels, inner;
};

template <class T>
void batch_forward_as(const TensorView& x, const TensorView& weight, const TensorView& bias,
                      double eps, bool training, const TensorView& y, const TensorView& mean,
                      const TensorView& rstd) {
  const Channels shape(x);
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> w(weight, shape.channels, T{1}), b(bias, shape.channels, T{0});
  parallel_for(shape.channels, grain_for(shape.per_channel()), [&](int64_t begin, int64_t end) {
    Row<T> x_scratch(shape.inner), y_scratch(shape.inner);
    for (int64_t channel = begin; channel < end; ++channel) {
      const auto row = [&](int64_t i) {
        return load(x, shape.at(i, channel), shape.inner, x_scratch.data());
      };
      if (training) {
        double total = 0, squares = 0;
        for (int64_t i = 0; i < shape.n; ++i) total += math.sum(row(i), shape.inner);
        const T center = static_cast<T>(total / static_cast<double>(shape.per_channel()));
        for (int64_t i = 0; i < shape.n; ++i)
          squares += math.square_sum(row(i), center, shape.inner);
        store_at(center, mean, channel);
        store_at(inverse_deviation(static_cast<T>(squares), shape.per_channel(), eps), rstd,
                 channel);
      }
      const T center = value_at<T>(mean, channel);
      const T scale = value_at<T>(rstd, channel) * w[channel];
      for (int64_t i = 0; i < shape.n; ++i) {
        T* out = row_target(y, shape.at(i, channel), y_scratch.data());
        math.affine(row(i), center, scale, b[channel], shape.inner, out);
        store(out, y, shape.at(i, channel), shape.inner);
      }
    }
  });
}

void batch_forward(TensorView x, TensorView weight, TensorView bias, double eps, bool training,
                   TensorView y, TensorView mean, TensorView rstd) {
  with_compute_type("batch_norm", x.dtype, [&](auto tag) {
    batch_forward_as<typename decltype(tag)::type>(x, weight, bias, eps, training, y, mean, rstd);
  });
}

template <class T>
void batch_backward_as(const TensorView& dy, const TensorView& x, const TensorView& weight,
                       const TensorView& mean, const TensorView& rstd, bool training,
                       const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                       bool accumulate_parameters) {
  const Channels shape(x);
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> w(weight, shape.channels, T{1});
  parallel_for(shape.channels, grain_for(shape.per_channel()), [&](int64_t begin, int64_t end) {
    Row<T> dy_scratch(shape.inner), x_scratch(shape.inner), dx_scratch(shape.inner);
    for (int64_t channel = begin; channel < end; ++channel) {
      const T center = value_at<T>(mean, channel), scale = value_at<T>(rstd, channel);
      double plain = 0, centered = 0;
      for (int64_t i = 0; i < shape.n; ++i) {
        const T* g = load(dy, shape.at(i, channel), shape.inner, dy_scratch.data());
        const T* in = load(x, shape.at(i, channel), shape.inner, x_scratch.data());
        plain += math.sum(g, shape.inner);
        centered += math.centered_dot(g, in, center, shape.inner);
      }
      if (dweight.present) {
        store_at(static_cast<T>(centered) * scale, dweight, channel, accumulate_parameters);
      }
      if (dbias.present) store_at(static_cast<T>(plain), dbias, channel, accumulate_parameters);
      if (!dx.present) continue;
      // Given statistics do not depend on x, so nothing flows through them.
      const double count = static_cast<double>(shape.per_channel());
      const T factor = scale * w[channel];
      const T slope = training ? -factor * scale * scale * static_cast<T>(centered / count) : T{0};
      const T offset = training ? -factor * static_cast<T>(plain / count) : T{0};
      for (int64_t i = 0; i < shape.n; ++i) {
        const int64_t at = shape.at(i, channel);
        const T* g = load(dy, at, shape.inner, dy_scratch.data());
        const T* in = load(x, at, shape.inner, x_scratch.data());
        T* out = row_target(dx, at, dx_scratch.data());
        math.gradient(g, nullptr, in, center, factor, slope, offset, shape.inner, out);
        store(out, dx, at, shape.inner);
      }
    }
  });
}

void batch_backward(TensorView dy, TensorView x, TensorView weight, TensorView mean,
                    TensorView rstd, bool training, TensorView dx, TensorView dweight,
                    TensorView dbias, bool accumulate_parameters) {
  with_compute_type("batch_norm_backward", x.dtype, [&](auto tag) {
    batch_backward_as<typename decltype(tag)::type>(dy, x, weight, mean, rstd, training, dx,
                                                    dweight, dbias, accumulate_parameters);
  });
}

// ---- group norm: a group is one run of `channels` rows of `inner` elements ----

struct Groups {
  explicit Groups(const TensorView& x)
      : n(x.shape[0]), groups(x.shape[1]), channels(x.shape[2]), inner(x.shape[3]) {}
  int64_t count() const { return n * groups; }
  int64_t size() const { return channels * inner; }
  // The first channel of a group, as weights count them.
  int64_t first_channel(int64_t group) const { return group % groups * channels; }

  int64_t n, groups, channels, inner;
};

template <class T>
void group_forward_as(const TensorView& x, const TensorView& weight, const TensorView& bias,
                      double eps, const TensorView& y, const TensorView& mean,
                      const TensorView& rstd) {
  const Groups shape(x);
  const int64_t size = shape.size();
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> w(weight, shape.groups * shape.channels, T{1}),
      b(bias, shape.groups * shape.channels, T{0});
  parallel_for(shape.count(), grain_for(size), [&](int64_t begin, int64_t end) {
    Row<T> x_scratch(size), y_scratch(size);
    for (int64_t group = begin; group < end; ++group) {
      const T* in = load(x, group * size, size, x_scratch.data());
      const T center = math.sum(in, size) / static_cast<T>(size);
      const T scale = inverse_deviation(math.square_sum(in, center, size), size, eps);
      store_at(center, mean, group);
      store_at(scale, rstd, group);
      T* out = row_target(y, group * size, y_scratch.data());
      for (int64_t c = 0; c < shape.channels; ++c) {
        const int64_t channel = shape.first_channel(group) + c;
        math.affine(in + c * shape.inner, center, scale * w[channel], b[channel], shape.inner,
                    out + c * shape.inner);
      }
      store(out, y, group * size, size);
    }
  });
}

void group_forward(TensorView x, TensorView weight, TensorView bias, double eps, TensorView y,
                   TensorView mean, TensorView rstd) {
  with_compute_type("group_norm", x.dtype, [&](auto tag) {
    group_forward_as<typename decltype(tag)::type>(x, weight, bias, eps, y, mean, rstd);
  });
}

template <class T>
void group_backward_as(const TensorView& dy, const TensorView& x, const TensorView& weight,
                       const TensorView& mean, const TensorView& rstd, const TensorView& dx,
                       const TensorView& dweight, const TensorView& dbias,
                       bool accumulate_parameters) {
  const Groups shape(x);
  const int64_t size = shape.size(), all_channels = shape.groups * shape.channels;
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> w(weight, all_channels, T{1});
  // Per sample and channel: the sums of dy and of dy * (x - mean) * rstd.
  Row<T> plain(static_cast<size_t>(shape.n * all_channels)), centered(plain.size());
  parallel_for(shape.count(), grain_for(size), [&](int64_t begin, int64_t end) {
    Row<T> dy_scratch(size), x_scratch(size), dx_scratch(size);
    for (int64_t group = begin; group < end; ++group) {
      const T* g = load(dy, group * size, size, dy_scratch.data());
      const T* in = load(x, group * size, size, x_scratch.data());
      const T center = value_at<T>(mean, group), scale = value_at<T>(rstd, group);
      T group_plain = 0, group_centered = 0;
      for (int64_t c = 0; c < shape.channels; ++c) {
        const int64_t at = group * shape.channels + c, channel = shape.first_channel(group) + c;
        plain[at] = math.sum(g + c * shape.inner, shape.inner);
        centered[at] = scale * math.centered_dot(g + c * shape.inner, in + c * shape.inner, center,
                                                 shape.inner);
        group_plain += w[channel] * plain[at];
        group_centered += w[channel] * centered[at];
      }
      if (!dx.present) continue;
      const T slope = -scale * scale * (group_centered / static_cast<T>(size));
      const T offset = -scale * (group_plain / static_cast<T>(size));
      T* out = row_target(dx, group * size, dx_scratch.data());
      for (int64_t c = 0; c < shape.channels; ++c) {
        const int64_t at = c * shape.inner;
        math.gradient(g + at, nullptr, in + at, center, scale * w[shape.first_channel(group) + c],
                      slope, offset, shape.inner, out + at);
      }
      store(out, dx, group * size, size);
    }
  });
  for (int64_t channel = 0; channel < all_channels; ++channel) {
    double weight_sum = 0, bias_sum = 0;
    for (int64_t i = 0; i < shape.n; ++i) {
      weight_sum += centered[i * all_channels + channel];
      bias_sum += plain[i * all_channels + channel];
    }
    if (dweight.present)
      store_at(static_cast<T>(weight_sum), dweight, channel, accumulate_parameters);
    if (dbias.present) store_at(static_cast<T>(bias_sum), dbias, channel, accumulate_parameters);
  }
}

void group_backward(TensorView dy, TensorView x, TensorView weight, TensorView mean,
                    TensorView rstd, TensorView dx, TensorView dweight, TensorView dbias,
                    bool accumulate_parameters) {
  with_compute_type("group_norm_backward", x.dtype, [&](auto tag) {
    group_backward_as<typename decltype(tag)::type>(dy, x, weight, mean, rstd, dx, dweight, dbias,
                                                    accumulate_parameters);
  });
}

}  // namespace

void normalize(const TensorView& x, const TensorView& weight, const TensorView& bias,
               const TensorView& mean, const TensorView& rstd, const TensorView& y) {
  const int64_t rows = x.shape[0], width = x.shape[1];
  const NormRows<float>& math = norm_rows<float>();
  const Parameter<float> w(weight, width, 1), b(bias, width, 0);
  parallel_for(rows, grain_for(width), [&](int64_t begin, int64_t end) {
    Row<float> x_scratch(width), y_scratch(width);
    for (int64_t row = begin; row < end; ++row) {
      const float* in = load(x, row * width, width, x_scratch.data());
      float* out = row_target(y, row * width, y_scratch.data());
      math.normalize(in, mean.present ? value_at<float>(mean, row) : 0, value_at<float>(rstd, row),
                     w.data(), bias.present ? b.data() : nullptr, width, out);
      store(out, y, row * width, width);
    }
  });
}

const NormKernels norm_kernels{.forward = forward,
                               .backward = backward,
                               .batch_forward = batch_forward,
                               .batch_backward = batch_backward,
                               .group_forward = group_forward,
                               .group_backward = group_backward};

}  // namespace binade::backend::cpu
