#include "binade/backend/cpu/index/index_add.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

// Lines (one for each position in the other axes) that are summed side by side: many if they share
// one index, fewer if each has its own and all their sums should stay in cache.
constexpr int64_t lines_per_run = block_size;
constexpr int64_t lines_together = 128;

// A scatter with its axis separated from the others, whose shape x, index and y have.
struct Scatter {
  TensorView x, index, y;
  int64_t count;    // entries of x along the axis
  int64_t targets;  // entries of y along the axis
  int64_t x_step, index_step, y_step;

  int64_t width() const { return y.shape.back(); }
};

// One piece of work: lines [first, first + lines) and the targets t with t % owners == owner.
// Owners interleave because frequent indices tend to be close to each other.
struct ScatterPiece {
  int64_t first, lines;
  int64_t owner, owners;

  bool owns(int64_t target) const { return owners == 1 || target % owners == owner; }
};

// Sums in y itself, if its type is that of the sums.
template <class T>
class SumsInPlace {
 public:
  SumsInPlace(const Scatter& s, const ScatterPiece& piece)
      : base_(s.y.as<T>() + offset_in(s.y, piece.first)),
        step_(s.y_step),
        stride_(s.y.strides.back()) {}

  // The sums of one target: one per line, stride() apart.
  T* at(int64_t target) { return base_ + target * step_; }
  int64_t stride() const { return stride_; }
  void finish() {}

 private:
  T* base_;
  int64_t step_, stride_;
};

// Sums beside y: a target's sums start as y's values at the first access and are written back at
// the end.
template <class T>
class SumsBeside {
 public:
  SumsBeside(const Scatter& s, const ScatterPiece& piece)
      : s_(s), piece_(piece), base_(offset_in(s.y, piece.first)), stride_(s.y.strides.back()) {
    const int64_t targets = divide_up(s.targets, piece.owners);
    slots_.assign(static_cast<size_t>(targets), -1);
    const int64_t max_used = std::min(targets, s.count * piece.lines);
    sums_ = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(max_used * piece.lines));
  }

  T* at(int64_t target) {
    int64_t& slot = slots_[static_cast<size_t>(target / piece_.owners)];
    if (slot >= 0) return sums_.get() + slot * piece_.lines;
    slot = static_cast<int64_t>(used_.size());
    used_.push_back(target);
    T* sums = sums_.get() + slot * piece_.lines;
    read_run(s_.y, base_ + target * s_.y_step, stride_, piece_.lines, sums);
    return sums;
  }
  int64_t stride() const { return 1; }

  void finish() {
    const T* sums = sums_.get();
    for (const int64_t target : used_) {
      write_run(sums, s_.y, base_ + target * s_.y_step, stride_, piece_.lines);
      sums += piece_.lines;
    }
  }

 private:
  const Scatter& s_;
  const ScatterPiece piece_;
  int64_t base_, stride_;
  std::vector<int64_t> slots_;  // by target / owners
  std::vector<int64_t> used_;   // targets by slot
  std::unique_ptr<T[]> sums_;
};

// One index for all lines: adds runs.
template <class T, class Sums>
void add_runs(const Scatter& s, const ScatterPiece& piece, Sums sums) {
  const int64_t x_base = offset_in(s.x, piece.first), x_stride = s.x.strides.back();
  const int64_t stride = sums.stride();
  int64_t targets[block_size];
  T scratch[lines_per_run];
  for_blocks(0, s.count, [&](int64_t at, int64_t n) {
    read_run(s.index, at * s.index_step, s.index_step, n, targets);
    for (int64_t i = 0; i < n; ++i) {
      if (!piece.owns(targets[i])) continue;
      const int64_t offset = x_base + (at + i) * s.x_step;
      const T* values = load_run(s.x, offset, x_stride, piece.lines, scratch);
      T* to = sums.at(targets[i]);
      if (stride == 1) {
        binary_block(Binary::add, to, values, to, piece.lines);
      } else {
        for (int64_t line = 0; line < piece.lines; ++line) to[line * stride] += values[line];
      }
    }
  });
  sums.finish();
}

// An index for each element, several lines side by side.
template <class T, class Sums>
void add_elements(const Scatter& s, const ScatterPiece& piece, Sums sums) {
  const int64_t x_base = offset_in(s.x, piece.first), index_base = offset_in(s.index, piece.first);
  const int64_t stride = sums.stride();
  int64_t targets[lines_together];
  T values[lines_together];
  for (int64_t i = 0; i < s.count; ++i) {
    read_run(s.x, x_base + i * s.x_step, s.x.strides.back(), piece.lines, values);
    read_run(s.index, index_base + i * s.index_step, s.index.strides.back(), piece.lines, targets);
    for (int64_t line = 0; line < piece.lines; ++line) {
      if (piece.owns(targets[line])) sums.at(targets[line])[line * stride] += values[line];
    }
  }
  sums.finish();
}

// An index for each element of one line, which runs along the axis.
template <class T, class Sums>
void add_line(const Scatter& s, const ScatterPiece& piece, Sums sums) {
  const int64_t x_base = offset_in(s.x, piece.first), index_base = offset_in(s.index, piece.first);
  int64_t targets[block_size];
  T values[block_size];
  for_blocks(0, s.count, [&](int64_t at, int64_t n) {
    read_run(s.x, x_base + at * s.x_step, s.x_step, n, values);
    read_run(s.index, index_base + at * s.index_step, s.index_step, n, targets);
    for (int64_t i = 0; i < n; ++i) {
      if (piece.owns(targets[i])) *sums.at(targets[i]) += values[i];
    }
  });
  sums.finish();
}

enum class Method { runs, elements, line };

template <class T, class Sums>
void add_piece(Method method, const Scatter& s, const ScatterPiece& piece) {
  switch (method) {
    case Method::runs:
      return add_runs<T>(s, piece, Sums(s, piece));
    case Method::elements:
      return add_elements<T>(s, piece, Sums(s, piece));
    case Method::line:
      return add_line<T>(s, piece, Sums(s, piece));
  }
}

bool one_index_for_all_lines(const TensorView& index) {
  return std::all_of(index.strides.begin(), index.strides.end(), [](int64_t s) { return s == 0; });
}

Method method_for(const Scatter& s) {
  if (one_index_for_all_lines(s.index)) return s.width() > 1 ? Method::runs : Method::line;
  return std::abs(s.x.strides.back()) < std::abs(s.x_step) ? Method::elements : Method::line;
}

template <class T>
void scatter(const Scatter& s) {
  const Method method = method_for(s);
  const int64_t together = method == Method::runs       ? lines_per_run
                           : method == Method::elements ? lines_together
                                                        : 1;
  const int64_t blocks = divide_up(s.width(), together);
  const int64_t outer = s.y.numel() / s.width();
  const int64_t work = s.count * std::min(s.width(), together);
  // If there are fewer lines than threads, the threads divide the targets too.
  const bool small = outer * blocks * work < elementwise_grain;
  const int64_t owners = small || outer * blocks >= threads() ? 1 : threads();
  parallel_for(
      outer * blocks * owners, owners > 1 ? 1 : grain_for(work), [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t block = item / owners % blocks, matrix = item / owners / blocks;
          const ScatterPiece piece{.first = matrix * s.width() + block * together,
                                   .lines = std::min(together, s.width() - block * together),
                                   .owner = item % owners,
                                   .owners = owners};
          if (s.y.dtype == dtype_of<T>) {
            add_piece<T, SumsInPlace<T>>(method, s, piece);
          } else {
            add_piece<T, SumsBeside<T>>(method, s, piece);
          }
        }
      });
}

}  // namespace

void scatter_add(TensorView x, int axis, TensorView index, TensorView y) {
  if (x.numel() == 0 || y.numel() == 0) return;
  if (index.dtype != DType::i64 && index.dtype != DType::i32) {
    fail("scatter_add",
         {.argument = "index", .expected = "i64 or i32", .found = std::string(name(index.dtype))});
  }
  Scatter s{.x = without_axis(x, axis),
            .index = without_axis(index, axis),
            .y = without_axis(y, axis),
            .count = x.shape[axis],
            .targets = y.shape[axis],
            .x_step = x.strides[axis],
            .index_step = index.strides[axis],
            .y_step = y.strides[axis]};
  // x may be smaller than y in the other axes.
  s.y.shape = s.x.shape;
  sort_axes({&s.y, &s.index, &s.x});
  merge_axes({&s.y, &s.index, &s.x});
  if (!is_floating(y.dtype)) return scatter<int64_t>(s);
  if (y.dtype == DType::f64) return scatter<double>(s);
  scatter<float>(s);
}

}  // namespace binade::backend::cpu
