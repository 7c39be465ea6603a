#include "binade/backend/scan.h"

#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

// The lines of a tensor along one axis: the offset of line i and the distance between its elements.
class Lines {
 public:
  Lines(const TensorView& x, int axis)
      : shape_(x.shape), strides_(x.strides), stride_(x.strides[axis]) {
    shape_.erase(axis);
    strides_.erase(axis);
  }
  int64_t count() const { return shape_.numel(); }
  int64_t stride() const { return stride_; }
  int64_t start(int64_t line) const {
    int64_t offset = 0;
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      offset += line % shape_[axis] * strides_[axis];
      line /= shape_[axis];
    }
    return offset;
  }

 private:
  Shape shape_;
  Strides strides_;
  int64_t stride_;
};

// Calls f(line, length, three scratch lines) for each line of x. The scratch is f64: running
// products gain accuracy, and memory limits the speed anyway.
template <class F>
void for_each_line(const TensorView& x, int axis, F f) {
  const int64_t length = x.shape[axis];
  if (x.numel() == 0) return;
  parallel_for(Lines(x, axis).count(), 16, [&](int64_t begin, int64_t end) {
    std::vector<double> a(static_cast<size_t>(length)), b(a), out(a);
    for (int64_t line = begin; line < end; ++line) f(line, length, a.data(), b.data(), out.data());
  });
}

void read_line(const TensorView& x, int axis, int64_t line, int64_t length, double* out) {
  const Lines lines(x, axis);
  read_run(x, lines.start(line), lines.stride(), length, out);
}

void write_line(const double* values, const TensorView& y, int axis, int64_t line, int64_t length) {
  const Lines lines(y, axis);
  write_run(values, y, lines.start(line), lines.stride(), length);
}

void cumprod(TensorView x, int axis, TensorView y) {
  for_each_line(x, axis, [&](int64_t line, int64_t length, double* in, double*, double* out) {
    read_line(x, axis, line, length, in);
    double product = 1;
    for (int64_t i = 0; i < length; ++i) out[i] = product *= in[i];
    write_line(out, y, axis, line, length);
  });
}

void cumprod_backward(TensorView dy, TensorView x, int axis, TensorView dx) {
  for_each_line(x, axis,
                [&](int64_t line, int64_t length, double* in, double* gradient, double* out) {
                  read_line(x, axis, line, length, in);
                  read_line(dy, axis, line, length, gradient);
                  double product = 1;
                  for (int64_t i = 0; i < length; product *= in[i++]) out[i] = product;
                  double tail = 0;
                  for (int64_t i = length; i-- > 0;) {
                    tail = gradient[i] + (i + 1 < length ? in[i + 1] * tail : 0);
                    out[i] *= tail;
                  }
                  write_line(out, dx, axis, line, length);
                });
}

}  // namespace

const ScanKernels scan_kernels{.cumprod = cumprod, .cumprod_backward = cumprod_backward};

}  // namespace binade::backend::cpu
