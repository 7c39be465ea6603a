#include "ops/table/array.h"

#include <algorithm>

namespace binade::optable {

int64_t Array::flat(const Shape& index) const {
  int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) at = at * shape[axis] + index[axis];
  return at;
}

void for_each_index(const Shape& shape, FunctionRef<void(const Shape& index)> f) {
  Shape index = Shape::filled(shape.rank(), 0);
  for (int64_t left = shape.numel(); left > 0; --left) {
    f(index);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

const Real& broadcast_at(const Array& x, const Shape& index) {
  const int offset = index.rank() - x.shape.rank();
  Shape own = x.shape;
  for (int axis = 0; axis < own.rank(); ++axis)
    own[axis] = x.shape[axis] == 1 ? 0 : index[axis + offset];
  return x(own);
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape shape = Shape::filled(rank, 1);
  for (const Shape* operand : {&a, &b}) {
    for (int axis = 0; axis < operand->rank(); ++axis) {
      const int at = axis + rank - operand->rank();
      if ((*operand)[axis] != 1) shape[at] = (*operand)[axis];
    }
  }
  return shape;
}

Array map(const Array& x, FunctionRef<Real(const Real&)> f) {
  Array y(x.shape);
  for (int64_t i = 0; i < x.numel(); ++i) y[i] = f(x[i]);
  return y;
}

Array zip(const Array& a, const Array& b, FunctionRef<Real(const Real&, const Real&)> f) {
  Array y(broadcast_shape(a.shape, b.shape));
  int64_t i = 0;
  for_each_index(y.shape, [&](const Shape& index) {
    y[i++] = f(broadcast_at(a, index), broadcast_at(b, index));
  });
  return y;
}

Array reduce(const Array& x, const std::vector<int64_t>& axes, bool keep,
             FunctionRef<Real(std::span<const Real>)> f) {
  Shape kept = x.shape, dropped;
  std::vector<bool> reduced(static_cast<size_t>(x.shape.rank()), axes.empty());
  for (const int64_t axis : axes)
    reduced[static_cast<size_t>(axis < 0 ? axis + x.shape.rank() : axis)] = true;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (reduced[static_cast<size_t>(axis)])
      kept[axis] = 1;
    else
      dropped.push_back(x.shape[axis]);
  }
  std::vector<std::vector<Real>> groups(static_cast<size_t>(kept.numel()));
  const Array layout(kept);
  for_each_index(x.shape, [&](const Shape& index) {
    Shape group = index;
    for (int axis = 0; axis < group.rank(); ++axis) group[axis] = kept[axis] == 1 ? 0 : index[axis];
    groups[static_cast<size_t>(layout.flat(group))].push_back(x(index));
  });
  Array y(keep ? kept : dropped);
  for (int64_t i = 0; i < y.numel(); ++i) y[i] = f(groups[static_cast<size_t>(i)]);
  return y;
}

Array along(const Array& x, int64_t axis, FunctionRef<std::vector<Real>(std::span<const Real>)> f) {
  const int at = static_cast<int>(axis < 0 ? axis + x.shape.rank() : axis);
  Array y(x.shape);
  Shape lines = x.shape;
  lines[at] = 1;
  for_each_index(lines, [&](const Shape& start) {
    std::vector<Real> line;
    Shape index = start;
    for (index[at] = 0; index[at] < x.shape[at]; ++index[at]) line.push_back(x(index));
    const std::vector<Real> out = f(line);
    for (index[at] = 0; index[at] < x.shape[at]; ++index[at])
      y(index) = out[static_cast<size_t>(index[at])];
  });
  return y;
}

Array permuted(const Array& x, const std::vector<int64_t>& order) {
  Shape shape = x.shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    shape[axis] = x.size(order[static_cast<size_t>(axis)]);
  Array y(shape);
  for_each_index(shape, [&](const Shape& index) {
    Shape from = index;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const int64_t at = order[static_cast<size_t>(axis)];
      from[static_cast<int>(at < 0 ? at + shape.rank() : at)] = index[axis];
    }
    y(index) = x(from);
  });
  return y;
}

}  // namespace binade::optable
