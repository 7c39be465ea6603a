#include "binade/backend/cpu/conv_columns.h"

#include <algorithm>

#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t tile_elements = 1 << 20;
constexpr int64_t least_columns = 32;
constexpr int64_t tile_columns = 2048;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t product(const std::array<int64_t, 3>& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

std::array<int64_t, 3> spatial(const TensorView& x) { return {x.shape[2], x.shape[3], x.shape[4]}; }

// Where along one axis the outputs lie that a tap reaches from inside the input: [begin, end).
struct Reach {
  int64_t begin, end, input;  // `input`: that of output 0, perhaps outside

  Reach(const ConvSizes& sizes, size_t axis, int64_t tap) {
    const int64_t stride = sizes.geometry.stride[axis];
    input = tap * sizes.geometry.dilation[axis] - sizes.geometry.padding[axis];
    begin = input >= 0 ? 0 : divide_up(-input, stride);
    end = sizes.in[axis] > input ? std::min(sizes.out[axis], divide_up(sizes.in[axis] - input, stride)) : 0;
    begin = std::min(begin, end);
  }
  bool has(int64_t output) const { return output >= begin && output < end; }
};

// Calls run(at, before, length, after, input) for each row of outputs in [first, first + count) of one
// tap: of the outputs from column `at` on, `before` lie in padding, `length` read the input plane from
// offset `input` on in steps of the stride, and `after` lie in padding again.
template <class Run>
void for_output_rows(const ConvSizes& s, int64_t tap, int64_t first, int64_t count, Run&& run) {
  const int64_t tap_w = tap % s.kernel[2], tap_h = tap / s.kernel[2] % s.kernel[1];
  const Reach d(s, 0, tap / s.kernel[2] / s.kernel[1]), h(s, 1, tap_h), w(s, 2, tap_w);
  const auto& stride = s.geometry.stride;
  for (int64_t at = 0; at < count;) {
    const int64_t position = first + at;
    const int64_t column = position % s.out[2], row = position / s.out[2] % s.out[1];
    const int64_t slice = position / s.out[2] / s.out[1];
    const int64_t width = std::min(s.out[2] - column, count - at);
    if (!d.has(slice) || !h.has(row)) {
      run(at, width, 0, 0, 0);
    } else {
      const int64_t begin = std::clamp(w.begin, column, column + width);
      const int64_t end = std::clamp(w.end, begin, column + width);
      const int64_t line = (d.input + slice * stride[0]) * s.in[1] + h.input + row * stride[1];
      run(at, begin - column, end - begin, column + width - end,
          line * s.in[2] + w.input + begin * stride[2]);
    }
    at += width;
  }
}

template <class T>
void make_row(const ConvSizes& sizes, const T* plane, int64_t tap, const ConvTile& tile, T* row) {
  const int64_t stride = sizes.geometry.stride[2];
  for_output_rows(sizes, tap, tile.first, tile.count,
                  [&](int64_t at, int64_t before, int64_t length, int64_t after, int64_t input) {
                    T* out = std::fill_n(row + at, before, T{});
                    if (stride == 1) {
                      std::copy_n(plane + input, length, out);
                    } else {
                      for (int64_t i = 0; i < length; ++i) out[i] = plane[input + i * stride];
                    }
                    std::fill_n(out + length, after, T{});
                  });
}

template <class T>
void make_columns_of(const ConvSizes& sizes, const T* x, int64_t group, ChannelRange channels,
                     const ConvTile& tile, T* columns) {
  const int64_t rows = (channels.end - channels.begin) * sizes.taps;
  const int64_t grain = divide_up(16384, std::max<int64_t>(tile.columns(), 1));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t channel = channels.begin + row / sizes.taps;
      for (int64_t image = 0; image < tile.images; ++image) {
        make_row(sizes, x + sizes.in_offset(tile.image + image, group) + channel * sizes.in_plane,
                 row % sizes.taps, tile, columns + row * tile.columns() + image * tile.count);
      }
    }
  });
}

template <class T>
void add_columns_of(const ConvSizes& sizes, const T* columns, ChannelRange channels, const ConvTile& tile,
                    T* planes) {
  const int64_t count = channels.end - channels.begin, stride = sizes.geometry.stride[2];
  parallel_for(tile.images * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t image = item / count, channel = item % count;
      T* plane = planes + item * sizes.in_plane;
      for (int64_t tap = 0; tap < sizes.taps; ++tap) {
        const T* row = columns + (channel * sizes.taps + tap) * tile.columns() + image * tile.count;
        for_output_rows(sizes, tap, tile.first, tile.count,
                        [&](int64_t at, int64_t before, int64_t length, int64_t, int64_t input) {
                          const T* in = row + at + before;
                          T* out = plane + input;
                          if (stride == 1) {
                            for (int64_t i = 0; i < length; ++i) out[i] += in[i];
                          } else {
                            for (int64_t i = 0; i < length; ++i) out[i * stride] += in[i];
                          }
                        });
      }
    }
  });
}

}  // namespace

ConvSizes::ConvSizes(const TensorView& x, const TensorView& weight, const TensorView& y,
                     const ConvGeometry& g)
    : geometry(g),
      in(spatial(x)),
      kernel(spatial(weight)),
      out(spatial(y)),
      images(x.shape[0]),
      groups(g.groups),
      in_channels(x.shape[1] / g.groups),
      out_channels(y.shape[1] / g.groups),
      in_plane(product(in)),
      out_plane(product(out)),
      taps(product(kernel)) {}

bool ConvSizes::pointwise() const {
  const std::array<int64_t, 3> one{1, 1, 1}, zero{0, 0, 0};
  return kernel == one && geometry.stride == one && geometry.padding == zero;
}

ConvTiles::ConvTiles(const ConvSizes& sizes, int64_t rows)
    : total_images_(sizes.images), total_positions_(sizes.out_plane) {
  const int64_t columns =
      std::clamp(tile_elements / std::max<int64_t>(rows, 1), least_columns, tile_columns);
  const int64_t positions = std::max<int64_t>(total_positions_, 1);
  position_parts_ = divide_up(positions, columns);
  positions_ = divide_up(positions, position_parts_);
  images_ = position_parts_ > 1 ? 1 : std::clamp<int64_t>(columns / positions, 1, std::max<int64_t>(total_images_, 1));
  image_parts_ = divide_up(total_images_, images_);
}

ConvTile ConvTiles::operator[](int64_t index) const {
  const int64_t image = index / position_parts_ * images_, first = index % position_parts_ * positions_;
  return {image, std::min(images_, total_images_ - image), first,
          std::min(positions_, total_positions_ - first)};
}

void make_columns(const ConvSizes& sizes, const TensorView& x, int64_t group, ChannelRange channels,
                  const ConvTile& tile, void* columns) {
  dispatch_floating("conv", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    make_columns_of(sizes, x.as<T>(), group, channels, tile, static_cast<T*>(columns));
  });
}

void add_columns(const ConvSizes& sizes, const float* columns, ChannelRange channels,
                 const ConvTile& tile, float* planes) {
  add_columns_of(sizes, columns, channels, tile, planes);
}

void add_columns(const ConvSizes& sizes, const double* columns, ChannelRange channels,
                 const ConvTile& tile, double* planes) {
  add_columns_of(sizes, columns, channels, tile, planes);
}

}  // namespace binade::backend::cpu
