#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "binade/base/division.h"

// The inputs that the windows of a convolution or a pool read, one row of outputs at a time.
namespace binade::backend::cpu {

// Sizes of one plane's inputs, outputs and window. Axes are d, h, w.
struct WindowGrid {
  std::array<int64_t, 3> in, kernel, out, stride, padding;
  std::array<int64_t, 3> dilation{1, 1, 1};

  int64_t inputs() const { return in[0] * in[1] * in[2]; }
  int64_t outputs() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

namespace detail {

// The outputs [begin, end) along one axis whose tap is inside the input.
struct Reach {
  int64_t begin, end;
  int64_t input;  // the tap of output 0, which may be outside

  Reach(const WindowGrid& grid, size_t axis, int64_t tap) {
    const int64_t size = grid.in[axis], stride = grid.stride[axis];
    input = tap * grid.dilation[axis] - grid.padding[axis];
    end = size > input ? std::min(grid.out[axis], divide_up(size - input, stride)) : 0;
    begin = input >= 0 ? 0 : std::min(divide_up(-input, stride), end);
  }
  bool has(int64_t output) const { return output >= begin && output < end; }
};

}  // namespace detail

// One tap of a part of a row of outputs: from `first` on, `before` outputs have the tap in padding,
// then `length` have it on the inputs from `input` on in steps of the last axis's stride, then
// `after` in padding again.
struct WindowRun {
  int64_t first;
  int64_t before, length, after;
  int64_t input;
};

// Calls visit(run) for each row of the outputs [begin, begin + count) of a plane; run.first counts
// from `begin`.
template <class Visit>
void for_window_rows(const WindowGrid& grid, int64_t tap, int64_t begin, int64_t count,
                     Visit&& visit) {
  const detail::Reach d(grid, 0, tap / grid.kernel[2] / grid.kernel[1]);
  const detail::Reach h(grid, 1, tap / grid.kernel[2] % grid.kernel[1]);
  const detail::Reach w(grid, 2, tap % grid.kernel[2]);
  for (int64_t at = 0; at < count;) {
    const int64_t column = (begin + at) % grid.out[2],
                  row = (begin + at) / grid.out[2] % grid.out[1];
    const int64_t slice = (begin + at) / grid.out[2] / grid.out[1];
    const int64_t width = std::min(grid.out[2] - column, count - at);
    WindowRun run{at, width, 0, 0, 0};
    if (d.has(slice) && h.has(row)) {
      const int64_t start = std::clamp(w.begin, column, column + width);
      const int64_t end = std::clamp(w.end, start, column + width);
      const int64_t line =
          (d.input + slice * grid.stride[0]) * grid.in[1] + h.input + row * grid.stride[1];
      run = {at, start - column, end - start, column + width - end,
             line * grid.in[2] + w.input + start * grid.stride[2]};
    }
    visit(run);
    at += width;
  }
}

}  // namespace binade::backend::cpu
