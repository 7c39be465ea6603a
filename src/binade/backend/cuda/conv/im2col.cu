#include "binade/backend/cuda/conv/im2col.h"

#include <algorithm>

#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/common/pack.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int conv_threads = 256;
constexpr int64_t max_rows = 65535;  // CUDA's limit for a grid's y axis

// The window of a convolution in 32 bits: tensors may have 2^31 elements, planes do not.
struct Window {
  int in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];

  explicit Window(const cpu::WindowGrid& grid) {
    for (size_t axis = 0; axis < 3; ++axis) {
      in[axis] = static_cast<int>(grid.in[axis]);
      kernel[axis] = static_cast<int>(grid.kernel[axis]);
      out[axis] = static_cast<int>(grid.out[axis]);
      stride[axis] = static_cast<int>(grid.stride[axis]);
      padding[axis] = static_cast<int>(grid.padding[axis]);
      dilation[axis] = static_cast<int>(grid.dilation[axis]);
    }
  }
};

struct Position {
  int d, h, w;

  __device__ Position(int64_t index, const int (&sizes)[3]) {
    const auto rest = static_cast<unsigned>(index) / static_cast<unsigned>(sizes[2]);
    w = static_cast<int>(static_cast<unsigned>(index) - rest * static_cast<unsigned>(sizes[2]));
    d = static_cast<int>(rest / static_cast<unsigned>(sizes[1]));
    h = static_cast<int>(rest - static_cast<unsigned>(d) * static_cast<unsigned>(sizes[1]));
  }
};

__device__ inline bool inside(int at, int size) {
  return static_cast<unsigned>(at) < static_cast<unsigned>(size);
}

// A thread copies all taps of one channel at one position: adjacent threads write adjacent
// elements.
template <class Bits>
__global__ void make_columns_kernel(const Bits* x, int64_t channels, Window window, ConvPart part,
                                    ConvMatrix columns) {
  const int64_t row_stride = columns.row_stride;
  const int64_t column = first_item();
  if (column >= part.images * part.count) return;
  const int64_t image = column / part.count, at = column - image * part.count;
  const Position out(part.first + at, window.out);
  const int d0 = out.d * window.stride[0] - window.padding[0];
  const int h0 = out.h * window.stride[1] - window.padding[1];
  const int w0 = out.w * window.stride[2] - window.padding[2];
  const int64_t plane = int64_t{window.in[0]} * window.in[1] * window.in[2];
  const int taps = window.kernel[0] * window.kernel[1] * window.kernel[2];
  for (int64_t channel = blockIdx.y; channel < channels; channel += gridDim.y) {
    const Bits* from = x + ((part.image + image) * channels + channel) * plane;
    Bits* to = static_cast<Bits*>(columns.data) + image * columns.image_stride +
               channel * taps * row_stride + at;
    for (int kd = 0; kd < window.kernel[0]; ++kd) {
      const int d = d0 + kd * window.dilation[0];
      for (int kh = 0; kh < window.kernel[1]; ++kh) {
        const int h = h0 + kh * window.dilation[1];
        const bool line = inside(d, window.in[0]) && inside(h, window.in[1]);
        const int64_t start = (int64_t{d} * window.in[1] + h) * window.in[2];
        for (int kw = 0; kw < window.kernel[2]; ++kw, to += row_stride) {
          const int w = w0 + kw * window.dilation[2];
          *to = line && inside(w, window.in[2]) ? from[start + w] : Bits{0};
        }
      }
    }
  }
}

template <class Bits>
void make_columns_of(const ConvSizes& sizes, const TensorView& x, const ConvPart& part,
                     const ConvMatrix& columns) {
  const int64_t channels = sizes.groups * sizes.in_channels;
  const dim3 grid(static_cast<unsigned>(ceil_div<int64_t>(part.images * part.count, conv_threads)),
                  static_cast<unsigned>(std::min(channels, max_rows)));
  launch(make_columns_kernel<Bits>, grid, conv_threads, 0, x.as<Bits>(), channels,
         Window(sizes.grid), part, columns);
}

// The output whose tap is at input `at`, along one axis; -1 if there is none.
__device__ inline int output_of(const Window& window, int axis, int at, int tap) {
  const int shifted = at + window.padding[axis] - tap * window.dilation[axis];
  const int out = shifted / window.stride[axis];
  return shifted >= 0 && out * window.stride[axis] == shifted && out < window.out[axis] ? out : -1;
}

// ConvChannels with the sizes that locate them in dx.
struct ChannelPart {
  ConvChannels channels;
  int64_t groups, group_channels;  // all channels of a group
};

// A thread sums all columns of one input, in order of taps.
template <class T, class C>
__global__ void sum_columns_kernel(ConvMatrix columns, const C* bias, Window window,
                                   ChannelPart part, T* dx, bool accumulate) {
  const int64_t row_stride = columns.row_stride, channels = part.channels.count;
  const int64_t plane = int64_t{window.in[0]} * window.in[1] * window.in[2];
  const int taps = window.kernel[0] * window.kernel[1] * window.kernel[2];
  const int64_t count = part.channels.images * part.groups * channels * plane;
  for (int64_t item = first_item(); item < count; item += item_step()) {
    const int64_t row = item / plane, at = item - row * plane;  // row: (image, group, channel)
    const int64_t images_row = row / channels, image = images_row / part.groups;
    const int64_t group_row = row - image * part.groups * channels;
    const int64_t channel = (images_row - image * part.groups) * part.group_channels +
                            part.channels.first + (row - images_row * channels);
    const Position in(at, window.in);
    const C* from = static_cast<const C*>(columns.data) + image * columns.image_stride +
                    group_row * taps * row_stride;
    C sum = bias != nullptr ? bias[channel] : C(0);
    for (int kd = 0; kd < window.kernel[0]; ++kd) {
      const int d = output_of(window, 0, in.d, kd);
      for (int kh = 0; kh < window.kernel[1]; ++kh) {
        const int h = output_of(window, 1, in.h, kh);
        if (d < 0 || h < 0) {
          from += window.kernel[2] * row_stride;
          continue;
        }
        const int64_t line = (int64_t{d} * window.out[1] + h) * window.out[2];
        for (int kw = 0; kw < window.kernel[2]; ++kw, from += row_stride) {
          const int w = output_of(window, 2, in.w, kw);
          if (w >= 0) sum += from[line + w];
        }
      }
    }
    T& to =
        dx[((part.channels.image + image) * part.groups * part.group_channels + channel) * plane +
           at];
    to = cast<T>(accumulate ? sum + static_cast<C>(to) : sum);
  }
}

template <class From, class T, class C>
__global__ void add_bias_kernel(ConvMatrix result, const C* bias, int64_t channels, int64_t plane,
                                ConvPart part, T* y) {
  const From* const from = static_cast<const From*>(result.data);
  const int64_t count = part.images * channels * part.count;
  for (int64_t item = first_item(); item < count; item += item_step()) {
    const int64_t row = item / part.count, at = item - row * part.count;
    const int64_t image = row / channels, channel = row - image * channels;
    const C value =
        static_cast<C>(from[image * result.image_stride + channel * result.row_stride + at]);
    y[((part.image + image) * channels + channel) * plane + part.first + at] =
        cast<T>(value + bias[channel]);
  }
}

}  // namespace

void make_columns(const ConvSizes& sizes, const TensorView& x, const ConvPart& part,
                  const ConvMatrix& columns) {
  switch (size_of(x.dtype)) {
    case 2:
      return make_columns_of<uint16_t>(sizes, x, part, columns);
    case 4:
      return make_columns_of<uint32_t>(sizes, x, part, columns);
    default:
      return make_columns_of<uint64_t>(sizes, x, part, columns);
  }
}

void sum_columns(const ConvSizes& sizes, const ConvMatrix& columns, const TensorView& bias,
                 const ConvChannels& channels, const TensorView& dx, bool accumulate) {
  const ChannelPart part{channels, sizes.groups, sizes.in_channels};
  const int64_t count = channels.images * sizes.groups * channels.count * sizes.in_plane;
  dispatch_floating("conv", dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    launch(sum_columns_kernel<T, C>, grid_for(count, conv_threads), conv_threads, 0, columns,
           bias.present ? bias.as<C>() : nullptr, Window(sizes.grid), part, dx.as<T>(), accumulate);
  });
}

void add_channel_bias(const ConvMatrix& result, DType result_type, const TensorView& bias,
                      const ConvPart& part, const TensorView& y) {
  const int64_t channels = y.shape[1], plane = y.shape[2] * y.shape[3] * y.shape[4];
  const unsigned grid = grid_for(part.images * channels * part.count, conv_threads);
  dispatch_floating("conv", y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const auto run = [&](auto from) {
      using From = typename decltype(from)::type;
      launch(add_bias_kernel<From, T, C>, grid, conv_threads, 0, result, bias.as<C>(), channels,
             plane, part, y.as<T>());
    };
    result_type == y.dtype ? run(TypeTag<T>{}) : run(TypeTag<C>{});
  });
}

}  // namespace binade::backend::cuda
