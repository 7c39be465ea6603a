#include "binade/backend/conv.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "binade/backend/cpu/conv/im2col.h"
#include "binade/backend/cpu/gemm/gemm.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

void* at(const TensorView& x, int64_t offset) { return advance(x.data, x.dtype, offset); }

template <class T>
OutputMatrix dense(T* data, int64_t columns) {
  return {data, dtype_of<T>, columns, 1};
}

// Kept between calls, which threads make at the same time.
struct Scratch {
  ScratchBuffer columns, result, sums;
};

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

// Runs items in parallel, or, if there are fewer than threads, one after another with all threads.
template <class Body>
void for_items(int64_t count, Body&& body) {
  if (count < threads()) {
    for (int64_t item = 0; item < count; ++item) body(item);
    return;
  }
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) body(item);
  });
}

// A group's channels of y at a tile's positions as a matrix [channels, columns]: in place if the
// tile has one image, else gathered.
InputMatrix outputs(const ConvSizes& sizes, const TensorView& y, int64_t group,
                    const ConvTile& tile, ScratchBuffer& buffer) {
  const auto size = static_cast<int64_t>(size_of(y.dtype));
  if (tile.images == 1) {
    return {at(y, sizes.out_offset(tile.image, group) + tile.first), y.dtype, sizes.out_plane, 1};
  }
  char* gathered = buffer.get<char>(sizes.out_channels * tile.columns() * size);
  for (int64_t channel = 0; channel < sizes.out_channels; ++channel) {
    for (int64_t image = 0; image < tile.images; ++image) {
      std::memcpy(gathered + (channel * tile.columns() + image * tile.count) * size,
                  at(y, sizes.out_offset(tile.image + image, group) + channel * sizes.out_plane),
                  static_cast<size_t>(tile.count * size));
    }
  }
  return {gathered, y.dtype, tile.columns(), 1};
}

// Columns of some channels of x as a matrix [channels x taps, columns].
InputMatrix inputs(const ConvSizes& sizes, const TensorView& x, int64_t group,
                   ChannelRange channels, const ConvTile& tile, ScratchBuffer& buffer) {
  if (sizes.pointwise() && tile.images == 1) {
    const int64_t first =
        sizes.in_offset(tile.image, group) + channels.begin * sizes.in_plane + tile.first;
    return {at(x, first), x.dtype, sizes.in_plane, 1};
  }
  const int64_t rows = (channels.end - channels.begin) * sizes.taps;
  void* columns = buffer.get<char>(rows * tile.columns() * static_cast<int64_t>(size_of(x.dtype)));
  make_columns(sizes, x, group, channels, tile, columns);
  return {columns, x.dtype, tile.columns(), 1};
}

template <class T>
T bias_at(const TensorView& bias, int64_t channel) {
  T value;
  return bias.present ? *load(bias, channel, 1, &value) : T(0);
}

// ---- forward ----

template <class T>
void store_outputs(const ConvSizes& sizes, T* result, const TensorView& bias, int64_t group,
                   const ConvTile& tile, const TensorView& y) {
  for (int64_t channel = 0; channel < sizes.out_channels; ++channel) {
    T* row = result + channel * tile.columns();
    const T shift = bias_at<T>(bias, group * sizes.out_channels + channel);
    for (int64_t i = 0; i < tile.columns(); ++i) row[i] += shift;
    for (int64_t image = 0; image < tile.images; ++image) {
      const int64_t offset =
          sizes.out_offset(tile.image + image, group) + channel * sizes.out_plane + tile.first;
      store(row + image * tile.count, y, offset, tile.count);
    }
  }
}

void forward(const ConvForward& call) {
  const TensorView &x = call.x, &weight = call.weight, &bias = call.bias, &y = call.y;
  const ConvSizes sizes(x, weight, y, call.geometry);
  const ConvTiles tiles(sizes, std::max(sizes.rows(), sizes.out_channels));
  with_compute_type("conv", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_items(tiles.count() * sizes.groups, [&](int64_t item) {
      const int64_t group = item % sizes.groups;
      const ConvTile tile = tiles[item / sizes.groups];
      GemmProblem problem{
          .m = sizes.out_channels,
          .n = tile.columns(),
          .k = sizes.rows(),
          .a = {at(weight, group * sizes.out_channels * sizes.rows()), weight.dtype, sizes.rows(),
                1},
          .b = inputs(sizes, x, group, {0, sizes.in_channels}, tile, scratch().columns)};
      if (!bias.present && tile.images == 1) {
        const int64_t first = sizes.out_offset(tile.image, group) + tile.first;
        problem.c = {at(y, first), y.dtype, sizes.out_plane, 1};
        gemm(problem);
        return;
      }
      T* result = scratch().result.template get<T>(sizes.out_channels * tile.columns());
      problem.c = dense(result, tile.columns());
      gemm(problem);
      store_outputs(sizes, result, bias, group, tile, y);
    });
  });
}

// ---- backward ----

// Channels whose rows are multiplied at a time: enough rows for a fast matmul.
int64_t channels_at_a_time(const ConvSizes& sizes, int64_t rows) {
  return std::clamp<int64_t>(rows / std::max<int64_t>(sizes.taps, 1), 1,
                             std::max<int64_t>(sizes.in_channels, 1));
}

// Without taps, the input's gradient is the matmul's result.
void backward_input_pointwise(const ConvSizes& sizes, const ConvBackwardInput& call) {
  const TensorView &dy = call.dy, &weight = call.weight, &dx = call.dx;
  for_items(sizes.images * sizes.groups, [&](int64_t item) {
    const int64_t image = item / sizes.groups, group = item % sizes.groups;
    gemm({.m = sizes.in_channels,
          .n = sizes.in_plane,
          .k = sizes.out_channels,
          .a = {at(weight, group * sizes.out_channels * sizes.in_channels), weight.dtype, 1,
                sizes.in_channels},
          .b = {at(dy, sizes.out_offset(image, group)), dy.dtype, sizes.out_plane, 1},
          .c = {at(dx, sizes.in_offset(image, group)), dx.dtype, sizes.in_plane, 1},
          .epilogue = {.beta = call.accumulate ? 1.0f : 0.0f}});
  });
}

// Adds the bias to planes [images, channels, in_plane] and stores them to dx.
template <class T>
void store_inputs(const ConvSizes& sizes, const ConvBackwardInput& call, int64_t group,
                  ChannelRange channels, const ConvTile& tile, T* planes) {
  const auto& [dy, weight, bias, geometry, dx, accumulate] = call;
  for (int64_t image = 0; image < tile.images; ++image) {
    for (int64_t channel = channels.begin; channel < channels.end;
         ++channel, planes += sizes.in_plane) {
      const T shift = bias_at<T>(bias, group * sizes.in_channels + channel);
      if (bias.present) std::for_each_n(planes, sizes.in_plane, [&](T& value) { value += shift; });
      store(planes, dx, sizes.in_offset(tile.image + image, group) + channel * sizes.in_plane,
            sizes.in_plane, accumulate);
    }
  }
}

// Sums over positions in order of tiles, then of taps. One item computes all of an input's
// gradient, so bits do not depend on threads.
template <class T>
void backward_input_columns(const ConvSizes& sizes, const ConvBackwardInput& call) {
  const TensorView &dy = call.dy, &weight = call.weight;
  // Rows of a fast matmul, and sums (4 MiB of f32) that an item keeps at most.
  constexpr int64_t wanted_rows = 256, plane_elements = 1 << 20;
  const int64_t step =
      std::min(channels_at_a_time(sizes, wanted_rows),
               std::max<int64_t>(plane_elements / std::max<int64_t>(sizes.in_plane, 1), 1));
  const int64_t spread = divide_up(sizes.in_plane, std::max<int64_t>(sizes.out_plane, 1));
  const ConvTiles tiles(sizes, std::max(sizes.out_channels, step * std::max(sizes.taps, spread)));
  const int64_t parts = divide_up(sizes.in_channels, step);
  for_items(tiles.image_parts() * sizes.groups * parts, [&](int64_t item) {
    const int64_t group = item / parts % sizes.groups, image_part = item / parts / sizes.groups;
    const int64_t first = item % parts * step;
    const ChannelRange channels{first, std::min(first + step, sizes.in_channels)};
    const int64_t count = channels.end - channels.begin, rows = count * sizes.taps;
    const InputMatrix w{
        at(weight, (group * sizes.out_channels * sizes.in_channels + first) * sizes.taps),
        weight.dtype, 1, sizes.rows()};
    ConvTile tile = tiles[image_part * tiles.position_parts()];
    T* planes = scratch().sums.template get<T>(tile.images * count * sizes.in_plane);
    std::fill_n(planes, tile.images * count * sizes.in_plane, T(0));
    for (int64_t part = 0; part < tiles.position_parts(); ++part) {
      tile = tiles[image_part * tiles.position_parts() + part];
      T* columns = scratch().result.template get<T>(rows * tile.columns());
      gemm({.m = rows,
            .n = tile.columns(),
            .k = sizes.out_channels,
            .a = w,
            .b = outputs(sizes, dy, group, tile, scratch().columns),
            .c = dense(columns, tile.columns())});
      add_columns(sizes, columns, channels, tile, planes);
    }
    store_inputs(sizes, call, group, channels, tile, planes);
  });
}

void backward_input(const ConvBackwardInput& call) {
  const ConvSizes sizes(call.dx, call.weight, call.dy, call.geometry);
  with_compute_type("conv", call.dy.dtype, [&](auto tag) {
    if (sizes.pointwise() && !call.bias.present) {
      backward_input_pointwise(sizes, call);
    } else {
      backward_input_columns<typename decltype(tag)::type>(sizes, call);
    }
  });
}

// A weight's gradient sums over all images. Blocks of channels are independent work items; if the
// gradient is small, images are divided into chunks as well, whose sums are added in order
// afterwards.
template <class T>
class WeightGradient {
 public:
  explicit WeightGradient(const ConvBackwardWeight& call)
      : call_(call), sizes_(call.x, call.dweight, call.dy, call.geometry) {
    // At most 8 MiB of partial sums in f32, and chunks for 16 threads.
    constexpr int64_t partial_elements = 1 << 21, max_chunks = 16;
    const int64_t total = std::max<int64_t>(blocks() * block_elements(), 1);
    const int64_t most = std::clamp<int64_t>(tiles_.count(), 1, max_chunks);
    chunks_ = std::clamp<int64_t>(partial_elements / total, 1, most);
  }

  void run() {
    if (chunks_ == 1) {
      for_items(blocks(), [&](int64_t block) {
        T* sums = scratch().sums.template get<T>(block_elements());
        sum(block, 0, sums);
        finish(block, sums);
      });
      return;
    }
    std::vector<T> partial(static_cast<size_t>(chunks_ * blocks() * block_elements()));
    const auto sums_of = [&](int64_t chunk, int64_t block) {
      return partial.data() + (chunk * blocks() + block) * block_elements();
    };
    for_items(chunks_ * blocks(), [&](int64_t item) {
      sum(item % blocks(), item / blocks(), sums_of(item / blocks(), item % blocks()));
    });
    for_items(blocks(), [&](int64_t block) {
      T* sums = sums_of(0, block);
      for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
        const T* more = sums_of(chunk, block);
        for (int64_t i = 0; i < block_elements(); ++i) sums[i] += more[i];
      }
      finish(block, sums);
    });
  }

 private:
  int64_t blocks() const { return sizes_.groups * parts_; }
  int64_t block_elements() const { return sizes_.out_channels * step_ * sizes_.taps; }
  ChannelRange channels(int64_t block) const {
    const int64_t first = block % parts_ * step_;
    return {first, std::min(first + step_, sizes_.in_channels)};
  }
  int64_t columns(ChannelRange range) const { return (range.end - range.begin) * sizes_.taps; }

  // [out_channels, channels x taps] of one block over one chunk of tiles.
  void sum(int64_t block, int64_t chunk, T* sums) {
    const int64_t begin = tiles_.count() * chunk / chunks_,
                  end = tiles_.count() * (chunk + 1) / chunks_;
    const ChannelRange range = channels(block);
    const int64_t group = block / parts_, width = columns(range);
    if (begin == end) std::fill_n(sums, sizes_.out_channels * width, T(0));
    for (int64_t i = begin; i < end; ++i) {
      const ConvTile tile = tiles_[i];
      InputMatrix in = inputs(sizes_, call_.x, group, range, tile, scratch().columns);
      std::swap(in.row_stride, in.col_stride);
      gemm({.m = sizes_.out_channels,
            .n = width,
            .k = tile.columns(),
            .a = outputs(sizes_, call_.dy, group, tile, scratch().result),
            .b = in,
            .c = dense(sums, width),
            .epilogue = {.beta = i == begin ? 0.0f : 1.0f}});
    }
  }

  void finish(int64_t block, const T* sums) {
    const ChannelRange range = channels(block);
    const int64_t width = columns(range), group = block / parts_;
    for (int64_t channel = 0; channel < sizes_.out_channels; ++channel) {
      const int64_t row = group * sizes_.out_channels + channel;
      store(sums + channel * width, call_.dweight, row * sizes_.rows() + range.begin * sizes_.taps,
            width, call_.accumulate);
    }
  }

  static constexpr int64_t wanted_columns = 512;  // of a fast matmul

  const ConvBackwardWeight& call_;
  const ConvSizes sizes_;
  const int64_t step_ = channels_at_a_time(sizes_, wanted_columns);
  const int64_t parts_ = divide_up(sizes_.in_channels, step_);
  const ConvTiles tiles_{sizes_, std::max(sizes_.out_channels, step_* sizes_.taps)};
  int64_t chunks_ = 1;
};

void backward_weight(const ConvBackwardWeight& call) {
  with_compute_type("conv", call.x.dtype,
                    [&](auto tag) { WeightGradient<typename decltype(tag)::type>(call).run(); });
}

}  // namespace

const ConvKernels conv_kernels{
    .forward = forward, .backward_input = backward_input, .backward_weight = backward_weight};

}  // namespace binade::backend::cpu
