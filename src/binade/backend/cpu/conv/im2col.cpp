#include "binade/backend/cpu/conv/im2col.h"

#include <algorithm>

#include "binade/base/division.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

// A tile's matrix has 4 MiB of f32 at most, unless 32 columns, the fewest for a fast matmul, need
// more. More than 2048 columns make a matmul no faster.
constexpr int64_t tile_elements = 1 << 20;
constexpr int64_t min_columns = 32;
constexpr int64_t max_columns = 2048;

std::array<int64_t, 3> spatial(const TensorView& x) { return {x.shape[2], x.shape[3], x.shape[4]}; }

template <class T>
void make_row(const ConvSizes& sizes, const T* plane, int64_t tap, const ConvTile& tile, T* row) {
  const int64_t stride = sizes.grid.stride[2];
  for_window_rows(sizes.grid, tap, tile.first, tile.count, [&](const WindowRun& run) {
    T* out = std::fill_n(row + run.first, run.before, T{});
    const T* in = plane + run.input;
    if (stride == 1) {
      std::copy_n(in, run.length, out);
    } else {
      for (int64_t i = 0; i < run.length; ++i) out[i] = in[i * stride];
    }
    std::fill_n(out + run.length, run.after, T{});
  });
}

template <class T>
void make_columns_of(const ConvSizes& sizes, const T* x, int64_t group, ChannelRange channels,
                     const ConvTile& tile, T* columns) {
  const int64_t rows = (channels.end - channels.begin) * sizes.taps;
  // Copying 16384 elements takes a few microseconds, about what waking a thread costs.
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
void add_row(const ConvSizes& sizes, const T* row, int64_t tap, const ConvTile& tile, T* plane) {
  const int64_t stride = sizes.grid.stride[2];
  for_window_rows(sizes.grid, tap, tile.first, tile.count, [&](const WindowRun& run) {
    const T* in = row + run.first + run.before;
    T* out = plane + run.input;
    if (stride == 1) {
      for (int64_t i = 0; i < run.length; ++i) out[i] += in[i];
    } else {
      for (int64_t i = 0; i < run.length; ++i) out[i * stride] += in[i];
    }
  });
}

template <class T>
void add_columns_of(const ConvSizes& sizes, const T* columns, ChannelRange channels,
                    const ConvTile& tile, T* planes) {
  const int64_t count = channels.end - channels.begin;
  parallel_for(tile.images * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t image = item / count, channel = item % count;
      for (int64_t tap = 0; tap < sizes.taps; ++tap) {
        add_row(sizes, columns + (channel * sizes.taps + tap) * tile.columns() + image * tile.count,
                tap, tile, planes + item * sizes.in_plane);
      }
    }
  });
}

}  // namespace

ConvSizes::ConvSizes(const TensorView& x, const TensorView& weight, const TensorView& y,
                     const ConvGeometry& g)
    : grid{spatial(x), spatial(weight), spatial(y), g.stride, g.padding, g.dilation},
      images(x.shape[0]),
      groups(g.groups),
      in_channels(x.shape[1] / g.groups),
      out_channels(y.shape[1] / g.groups),
      in_plane(grid.inputs()),
      out_plane(grid.outputs()),
      taps(grid.taps()) {}

bool ConvSizes::pointwise() const {
  const std::array<int64_t, 3> one{1, 1, 1}, zero{0, 0, 0};
  return grid.kernel == one && grid.stride == one && grid.padding == zero;
}

ConvTiles::ConvTiles(const ConvSizes& sizes, int64_t rows)
    : total_images_(sizes.images), total_positions_(sizes.out_plane) {
  const int64_t columns =
      std::clamp(tile_elements / std::max<int64_t>(rows, 1), min_columns, max_columns);
  const int64_t positions = std::max<int64_t>(total_positions_, 1);
  position_parts_ = divide_up(positions, columns);
  positions_ = divide_up(positions, position_parts_);
  images_ = position_parts_ > 1
                ? 1
                : std::clamp<int64_t>(columns / positions, 1, std::max<int64_t>(total_images_, 1));
  image_parts_ = divide_up(total_images_, images_);
}

ConvTile ConvTiles::operator[](int64_t index) const {
  const int64_t image = index / position_parts_ * images_,
                first = index % position_parts_ * positions_;
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
