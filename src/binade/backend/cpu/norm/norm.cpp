#include "binade/backend/norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/norm/norm_rows.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/backend/reduce.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

template <class T>
using Row = std::vector<T>;

// Rows per thread at a time: some thousand elements, so that starting a thread pays off.
int64_t rows_per_thread(int64_t width) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width));
}

// A parameter's elements as T, or `absent` n times if there is no parameter.
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
void store_at(T value, const TensorView& view, int64_t index) {
  if (view.dtype == dtype_of<T>) {
    view.as<T>()[index] = value;
  } else {
    store(&value, view, index, 1);
  }
}

// Does nothing if the target is absent.
template <class T>
void store_at(T value, const Target& target, int64_t index) {
  if (!target.present()) return;
  if (target.accumulate) {
    store(&value, target.view, index, 1, true);
  } else {
    store_at(value, target.view, index);
  }
}

template <class T>
T inverse_deviation(T square_sum, int64_t count, double eps) {
  return T{1} / std::sqrt(square_sum / static_cast<T>(count) + static_cast<T>(eps));
}

// ---- layer and rms norm ----

template <class T>
void forward_as(const NormForward& a) {
  const int64_t width = a.x.shape.back();
  const int64_t rows = width == 0 ? 0 : a.x.numel() / width;
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> weight(a.weight, width, T{1}), bias(a.bias, width, T{0});
  parallel_for(rows, rows_per_thread(width), [&](int64_t begin, int64_t end) {
    Row<T> x_scratch(width), other_scratch(width), y_scratch(width);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * width;
      const T* in = load(a.x, at, width, x_scratch.data());
      bool summed = false;
      T row_sum = 0;
      if (a.residual.present) {
        const T* other = load(a.residual, at, width, other_scratch.data());
        T* total = row_target(a.sum, at, y_scratch.data());
        row_sum = math.add(in, other, width, total);
        store(total, a.sum, at, width);
        // Reads the rounded sum, as after a separate add.
        in = load(a.sum, at, width, x_scratch.data());
        summed = in == total;
      }
      T center = 0;
      if (a.kind == NormKind::layer) {
        if (!summed) row_sum = math.sum(in, width);
        center = row_sum / static_cast<T>(width);
        if (a.mean.present) store_at(center, a.mean, row);
      }
      const T scale = inverse_deviation(math.square_sum(in, center, width), width, a.eps);
      if (a.rstd.present) store_at(scale, a.rstd, row);
      if (!a.y.present) continue;
      T* out = row_target(a.y, at, y_scratch.data());
      math.normalize(in,
                     {.center = center,
                      .scale = scale,
                      .weight = weight.data(),
                      .bias = a.bias.present ? bias.data() : nullptr},
                     width, out);
      store(out, a.y, at, width);
    }
  });
}

void forward(const NormForward& args) {
  with_compute_type("norm", args.x.dtype,
                    [&](auto tag) { forward_as<typename decltype(tag)::type>(args); });
  if (!args.quantized.data.present) return;
  quantize_kernels.quantize_norm({.x = args.residual.present ? args.sum : args.x,
                                  .weight = args.weight,
                                  .bias = args.bias,
                                  .mean = args.mean,
                                  .rstd = args.rstd,
                                  .dtype = args.rounded},
                                 args.quantized);
}

// Parameter gradients as partial sums over chunks of rows. The chunks depend only on the number of
// rows, so the result does not depend on the number of threads.
template <class T>
class PartialSums {
 public:
  PartialSums(int64_t rows, int64_t width)
      : width_(width),
        rows_per_chunk_(std::max<int64_t>(4, divide_up(rows, max_chunks))),
        chunks_(divide_up(rows, rows_per_chunk_)),
        sums_(static_cast<size_t>(2 * chunks_ * width)) {}

  int64_t chunks() const { return chunks_; }
  int64_t rows_per_chunk() const { return rows_per_chunk_; }
  T* weight(int64_t chunk) { return sums_.data() + 2 * chunk * width_; }
  T* bias(int64_t chunk) { return weight(chunk) + width_; }

  void finish(const Target& dweight, const Target& dbias) {
    if (dweight.present()) finish_one(0, dweight);
    if (dbias.present()) finish_one(1, dbias);
  }

 private:
  static constexpr int64_t max_chunks = 64;

  void finish_one(int64_t which, const Target& target) {
    parallel_for(width_, 512, [&](int64_t begin, int64_t end) {
      Row<T> total(static_cast<size_t>(end - begin));
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        const T* part = sums_.data() + (2 * chunk + which) * width_ + begin;
        for (int64_t i = 0; i < end - begin; ++i) total[i] += part[i];
      }
      store(total.data(), target, begin, end - begin);
    });
  }

  int64_t width_, rows_per_chunk_, chunks_;
  Row<T> sums_;
};

template <class T>
void backward_as(const NormBackward& a) {
  const int64_t width = a.x.shape.back();
  const int64_t rows = width == 0 ? 0 : a.x.numel() / width;
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> weight(a.weight, width, T{1});
  const bool has_parameters = a.dweight.present() || a.dbias.present();
  PartialSums<T> sums(rows, has_parameters ? width : 0);
  parallel_for(sums.chunks(), 1, [&](int64_t begin, int64_t end) {
    Row<T> dy_scratch(width), x_scratch(width), dx_scratch(width), other_scratch(width);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * sums.rows_per_chunk();
      const int64_t last = std::min(rows, first + sums.rows_per_chunk());
      for (int64_t row = first; row < last; ++row) {
        const int64_t at = row * width;
        const T center = a.kind == NormKind::layer ? value_at<T>(a.mean, row) : T{0};
        const T scale = value_at<T>(a.rstd, row);
        const RowGradient<T> gradient{.dy = load(a.dy, at, width, dy_scratch.data()),
                                      .x = load(a.x, at, width, x_scratch.data()),
                                      .weight = weight.data(),
                                      .center = center,
                                      .scale = scale};
        const RowSums<T> total = math.gradient_sums(
            gradient, width, has_parameters ? sums.weight(chunk) : nullptr, sums.bias(chunk));
        if (!a.dx.present()) continue;
        const T count = static_cast<T>(width);
        const Line<T> line{
            .slope = -scale * scale * scale * (total.centered / count),
            .offset = a.kind == NormKind::layer ? -scale * (total.plain / count) : T{0}};
        T* out = row_target(a.dx, at, dx_scratch.data());
        if (a.dsum.present) {
          const T* other = load(a.dsum, at, width, other_scratch.data());
          math.gradient_plus(gradient, line, other, width, out);
        } else {
          math.gradient(gradient, line, width, out);
        }
        store(out, a.dx, at, width);
      }
    }
  });
  sums.finish(a.dweight, a.dbias);
}

void backward(const NormBackward& args) {
  with_compute_type("norm_backward", args.x.dtype,
                    [&](auto tag) { backward_as<typename decltype(tag)::type>(args); });
  if (args.dx_sums.present()) reduce_kernels.reduce(Reduction::sum, args.dx.view, args.dx_sums);
}

// ---- batch norm: a channel is n rows of `inner` elements; its sums are added up in f64 ----

struct Channels {
  explicit Channels(const TensorView& x) : n(x.shape[0]), channels(x.shape[1]), inner(x.shape[2]) {}
  int64_t at(int64_t i, int64_t channel) const { return (i * channels + channel) * inner; }
  int64_t per_channel() const { return n * inner; }

  int64_t n, channels, inner;
};

template <class T>
void batch_forward_as(const ChannelNormForward& a) {
  const Channels shape(a.x);
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> weight(a.weight, shape.channels, T{1}), bias(a.bias, shape.channels, T{0});
  parallel_for(
      shape.channels, rows_per_thread(shape.per_channel()), [&](int64_t begin, int64_t end) {
        Row<T> x_scratch(shape.inner), y_scratch(shape.inner);
        for (int64_t channel = begin; channel < end; ++channel) {
          const auto row = [&](int64_t i) {
            return load(a.x, shape.at(i, channel), shape.inner, x_scratch.data());
          };
          if (a.training) {
            double total = 0, squares = 0;
            for (int64_t i = 0; i < shape.n; ++i) total += math.sum(row(i), shape.inner);
            const T center = static_cast<T>(total / static_cast<double>(shape.per_channel()));
            for (int64_t i = 0; i < shape.n; ++i)
              squares += math.square_sum(row(i), center, shape.inner);
            store_at(center, a.mean, channel);
            store_at(inverse_deviation(static_cast<T>(squares), shape.per_channel(), a.eps), a.rstd,
                     channel);
          }
          const T center = value_at<T>(a.mean, channel);
          const T scale = value_at<T>(a.rstd, channel) * weight[channel];
          for (int64_t i = 0; i < shape.n; ++i) {
            T* out = row_target(a.y, shape.at(i, channel), y_scratch.data());
            math.affine(row(i), center, scale, bias[channel], shape.inner, out);
            store(out, a.y, shape.at(i, channel), shape.inner);
          }
        }
      });
}

void batch_forward(const ChannelNormForward& args) {
  with_compute_type("batch_norm", args.x.dtype,
                    [&](auto tag) { batch_forward_as<typename decltype(tag)::type>(args); });
}

template <class T>
void batch_backward_as(const ChannelNormBackward& a) {
  const Channels shape(a.x);
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> weight(a.weight, shape.channels, T{1});
  parallel_for(
      shape.channels, rows_per_thread(shape.per_channel()), [&](int64_t begin, int64_t end) {
        Row<T> dy_scratch(shape.inner), x_scratch(shape.inner), dx_scratch(shape.inner);
        for (int64_t channel = begin; channel < end; ++channel) {
          const T center = value_at<T>(a.mean, channel), scale = value_at<T>(a.rstd, channel);
          double plain = 0, centered = 0;
          for (int64_t i = 0; i < shape.n; ++i) {
            const T* g = load(a.dy, shape.at(i, channel), shape.inner, dy_scratch.data());
            const T* in = load(a.x, shape.at(i, channel), shape.inner, x_scratch.data());
            plain += math.sum(g, shape.inner);
            centered += math.centered_dot(g, in, center, shape.inner);
          }
          store_at(static_cast<T>(centered) * scale, a.dweight, channel);
          store_at(static_cast<T>(plain), a.dbias, channel);
          if (!a.dx.present) continue;
          const double count = static_cast<double>(shape.per_channel());
          const T factor = scale * weight[channel];
          Line<T> line{.slope = 0, .offset = 0};
          if (a.training) {
            line = {.slope = -factor * scale * scale * static_cast<T>(centered / count),
                    .offset = -factor * static_cast<T>(plain / count)};
          }
          for (int64_t i = 0; i < shape.n; ++i) {
            const int64_t at = shape.at(i, channel);
            T* out = row_target(a.dx, at, dx_scratch.data());
            math.gradient({.dy = load(a.dy, at, shape.inner, dy_scratch.data()),
                           .x = load(a.x, at, shape.inner, x_scratch.data()),
                           .center = center,
                           .scale = factor},
                          line, shape.inner, out);
            store(out, a.dx, at, shape.inner);
          }
        }
      });
}

void batch_backward(const ChannelNormBackward& args) {
  with_compute_type("batch_norm_backward", args.x.dtype,
                    [&](auto tag) { batch_backward_as<typename decltype(tag)::type>(args); });
}

// ---- group norm: a group is one run of `channels` rows of `inner` elements ----

struct Groups {
  explicit Groups(const TensorView& x)
      : n(x.shape[0]), groups(x.shape[1]), channels(x.shape[2]), inner(x.shape[3]) {}
  int64_t count() const { return n * groups; }
  int64_t size() const { return channels * inner; }
  // Index of a group's first channel in the weight and bias.
  int64_t first_channel(int64_t group) const { return group % groups * channels; }

  int64_t n, groups, channels, inner;
};

template <class T>
void group_forward_as(const ChannelNormForward& a) {
  const Groups shape(a.x);
  const int64_t size = shape.size(), channels = shape.groups * shape.channels;
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> weight(a.weight, channels, T{1}), bias(a.bias, channels, T{0});
  parallel_for(shape.count(), rows_per_thread(size), [&](int64_t begin, int64_t end) {
    Row<T> x_scratch(size), y_scratch(size);
    for (int64_t group = begin; group < end; ++group) {
      const T* in = load(a.x, group * size, size, x_scratch.data());
      const T center = math.sum(in, size) / static_cast<T>(size);
      const T scale = inverse_deviation(math.square_sum(in, center, size), size, a.eps);
      store_at(center, a.mean, group);
      store_at(scale, a.rstd, group);
      T* out = row_target(a.y, group * size, y_scratch.data());
      for (int64_t c = 0; c < shape.channels; ++c) {
        const int64_t channel = shape.first_channel(group) + c;
        math.affine(in + c * shape.inner, center, scale * weight[channel], bias[channel],
                    shape.inner, out + c * shape.inner);
      }
      store(out, a.y, group * size, size);
    }
  });
}

void group_forward(const ChannelNormForward& args) {
  with_compute_type("group_norm", args.x.dtype,
                    [&](auto tag) { group_forward_as<typename decltype(tag)::type>(args); });
}

template <class T>
void group_backward_as(const ChannelNormBackward& a) {
  const Groups shape(a.x);
  const int64_t size = shape.size(), channels = shape.groups * shape.channels;
  const NormRows<T>& math = norm_rows<T>();
  const Parameter<T> weight(a.weight, channels, T{1});
  // Per sample and channel: the sums of dy and of dy * (x - mean) * rstd.
  Row<T> plain(static_cast<size_t>(shape.n * channels)), centered(plain.size());
  parallel_for(shape.count(), rows_per_thread(size), [&](int64_t begin, int64_t end) {
    Row<T> dy_scratch(size), x_scratch(size), dx_scratch(size);
    for (int64_t group = begin; group < end; ++group) {
      const T* g = load(a.dy, group * size, size, dy_scratch.data());
      const T* in = load(a.x, group * size, size, x_scratch.data());
      const T center = value_at<T>(a.mean, group), scale = value_at<T>(a.rstd, group);
      T group_plain = 0, group_centered = 0;
      for (int64_t c = 0; c < shape.channels; ++c) {
        const int64_t at = group * shape.channels + c, channel = shape.first_channel(group) + c;
        plain[at] = math.sum(g + c * shape.inner, shape.inner);
        centered[at] = scale * math.centered_dot(g + c * shape.inner, in + c * shape.inner, center,
                                                 shape.inner);
        group_plain += weight[channel] * plain[at];
        group_centered += weight[channel] * centered[at];
      }
      if (!a.dx.present) continue;
      const Line<T> line{.slope = -scale * scale * (group_centered / static_cast<T>(size)),
                         .offset = -scale * (group_plain / static_cast<T>(size))};
      T* out = row_target(a.dx, group * size, dx_scratch.data());
      for (int64_t c = 0; c < shape.channels; ++c) {
        const int64_t at = c * shape.inner;
        math.gradient({.dy = g + at,
                       .x = in + at,
                       .center = center,
                       .scale = scale * weight[shape.first_channel(group) + c]},
                      line, shape.inner, out + at);
      }
      store(out, a.dx, group * size, size);
    }
  });
  for (int64_t channel = 0; channel < channels; ++channel) {
    double weight_sum = 0, bias_sum = 0;
    for (int64_t i = 0; i < shape.n; ++i) {
      weight_sum += centered[i * channels + channel];
      bias_sum += plain[i * channels + channel];
    }
    store_at(static_cast<T>(weight_sum), a.dweight, channel);
    store_at(static_cast<T>(bias_sum), a.dbias, channel);
  }
}

void group_backward(const ChannelNormBackward& args) {
  with_compute_type("group_norm_backward", args.x.dtype,
                    [&](auto tag) { group_backward_as<typename decltype(tag)::type>(args); });
}

}  // namespace

void normalize(const TensorView& x, const TensorView& weight, const TensorView& bias,
               const TensorView& mean, const TensorView& rstd, const TensorView& y) {
  const int64_t rows = x.shape[0], width = x.shape[1];
  const NormRows<float>& math = norm_rows<float>();
  const Parameter<float> w(weight, width, 1), b(bias, width, 0);
  parallel_for(rows, rows_per_thread(width), [&](int64_t begin, int64_t end) {
    Row<float> x_scratch(width), y_scratch(width);
    for (int64_t row = begin; row < end; ++row) {
      const float* in = load(x, row * width, width, x_scratch.data());
      float* out = row_target(y, row * width, y_scratch.data());
      math.normalize(in,
                     {.center = mean.present ? value_at<float>(mean, row) : 0,
                      .scale = value_at<float>(rstd, row),
                      .weight = w.data(),
                      .bias = bias.present ? b.data() : nullptr},
                     width, out);
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
