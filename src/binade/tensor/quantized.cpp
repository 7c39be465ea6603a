#include "binade/tensor/quantized.h"

#include "binade/base/division.h"

namespace binade {

Shape scale_shape(const Shape& matrix, ScaleGroup group) {
  const auto groups = [](int64_t size, int64_t each) {
    return each == 0 ? int64_t{1} : divide_up(size, each);
  };
  return {groups(matrix[0], group.rows), groups(matrix[1], group.columns)};
}

ScaleGroup sized_group(const Shape& matrix, ScaleGroup group) {
  return {group.rows == 0 ? matrix[0] : group.rows, group.columns == 0 ? matrix[1] : group.columns};
}

}  // namespace binade
