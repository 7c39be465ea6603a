#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade {

// One number for all spatial axes, or one per axis.
using PerAxis = std::vector<int64_t>;

struct ConvOptions {
  PerAxis stride = {1};
  PerAxis padding = {0};
  PerAxis dilation = {1};
  int64_t groups = 1;
};

// x [n, in, spatial...], weight [out, in / groups, kernel...], bias [out] or undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});

struct ConvTransposeOptions {
  PerAxis stride = {1};
  PerAxis padding = {0};
  PerAxis output_padding = {0};  // smaller than stride or dilation
  PerAxis dilation = {1};
  int64_t groups = 1;
};

// The gradient of a convolution as an op: x [n, in, ...], weight [in, out / groups, kernel...].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});

struct PoolOptions {
  PerAxis kernel = {2};
  PerAxis stride = {};  // the kernel if empty
  PerAxis padding = {0};
  bool count_padding = true;  // averages divide by the window's size including padding
  // Whether a last window that reaches past the padding counts, if it starts before.
  bool ceil_mode = false;
};

// x [n, c, spatial...] with 1 to 3 spatial axes.
Tensor max_pool(const Tensor& x, const PoolOptions& options = {});
Tensor avg_pool(const Tensor& x, const PoolOptions& options = {});
// The average of each channel: [n, c, 1, ...].
Tensor global_avg_pool(const Tensor& x);

}  // namespace binade
