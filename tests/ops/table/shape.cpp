#include "binade/ops/shape/shape.h"

#include "binade/ops/create/copy.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

// Ops that move elements: exact.
Description moving(Op op, std::vector<Case> cases, Case large) {
  return {.op = op, .cases = std::move(cases), .large = std::move(large), .rounds = Rounds::each};
}

Case reshape_case(const std::string& name, const Shape& from, const Shape& to,
                  const Shape& result) {
  return {name,
          {{from}},
          call1([=](const Tensor& x) { return reshape(x, to); }),
          reference1([=](const Array& x) { return reshaped(x, result); })};
}

Case reshape_case(const std::string& name, const Shape& from, const Shape& to) {
  return reshape_case(name, from, to, to);
}

Case permute_case(const std::string& name, const Shape& shape, const std::vector<int64_t>& order) {
  return {name,
          {{shape}},
          call1([=](const Tensor& x) { return permute(x, order); }),
          reference1([=](const Array& x) { return permuted(x, order); })};
}

Array sliced(const Array& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  const int at = static_cast<int>(axis < 0 ? axis + x.shape.rank() : axis);
  Shape shape = x.shape;
  shape[at] = 0;
  for (int64_t i = begin; i < end; i += step) ++shape[at];
  Array y(shape);
  for_each_index(shape, [&](const Shape& index) {
    Shape from = index;
    from[at] = begin + index[at] * step;
    y(index) = x(from);
  });
  return y;
}

Case slice_case(const std::string& name, const Shape& shape, int64_t axis, int64_t begin,
                int64_t end, int64_t step) {
  return {name,
          {{shape}},
          call1([=](const Tensor& x) { return slice(x, axis, begin, end, step); }),
          reference1([=](const Array& x) {
            const int64_t size = x.size(axis);
            return sliced(x, axis, begin < 0 ? begin + size : begin,
                          std::min(end < 0 ? end + size : end, size), step);
          })};
}

Case expand_case(const std::string& name, const Shape& from, const Shape& to) {
  return {name,
          {{from}},
          call1([=](const Tensor& x) { return expand(x, to); }),
          reference1([=](const Array& x) {
            Array y(to);
            int64_t i = 0;
            for_each_index(to, [&](const Shape& index) { y[i++] = broadcast_at(x, index); });
            return y;
          })};
}

Case clone_case(const std::string& name, const Shape& shape) {
  return {name, {{shape}}, call1(clone), reference1([](const Array& x) { return x; })};
}

// Transposed first, so that there is something to copy.
Case contiguous_case(const std::string& name, const Shape& shape) {
  return {name,
          {{shape}},
          call1([](const Tensor& x) { return contiguous(transpose(x, 0, 1)); }),
          reference1([](const Array& x) {
            return permuted(x, {1, 0});
          })};
}

Array concatenated(Arrays parts, int at) {
  Shape shape = parts[0].shape;
  shape[at] = 0;
  for (const Array& part : parts) shape[at] += part.shape[at];
  Array y(shape);
  int64_t start = 0;
  for (const Array& part : parts) {
    for_each_index(part.shape, [&](const Shape& index) {
      Shape to = index;
      to[at] += start;
      y(to) = part(index);
    });
    start += part.shape[at];
  }
  return y;
}

Case cat_case(const std::string& name, const std::vector<Shape>& shapes, int64_t axis) {
  Case test{name,
            {},
            [=](std::span<const Tensor> x) { return std::vector<Tensor>{cat(x, axis)}; },
            [=](Arrays x) {
              return std::vector<Array>{
                  concatenated(x, static_cast<int>(axis < 0 ? axis + x[0].shape.rank() : axis))};
            }};
  for (const Shape& shape : shapes) test.inputs.push_back({shape});
  return test;
}

Case stack_case(const std::string& name, const Shape& shape, int count, int64_t axis) {
  Case test{name,
            {},
            [=](std::span<const Tensor> x) { return std::vector<Tensor>{stack(x, axis)}; },
            [=](Arrays x) {
              const int at = static_cast<int>(axis < 0 ? axis + x[0].shape.rank() + 1 : axis);
              std::vector<Array> parts;
              for (const Array& part : x) {
                Shape wider = part.shape;
                wider.insert(at, 1);
                parts.push_back(reshaped(part, wider));
              }
              return std::vector<Array>{concatenated(parts, at)};
            }};
  for (int i = 0; i < count; ++i) test.inputs.push_back({shape});
  return test;
}

}  // namespace

std::vector<Description> shape_ops() {
  return {
      moving(Op::reshape,
             {reshape_case("empty", {0, 6}, {3, 0, 2}), reshape_case("one", {1}, {1, 1, 1}),
              reshape_case("scalar", {1, 1}, {}), reshape_case("joined", {3, 5, 2}, {15, 2}),
              reshape_case("parted", {6, 7}, {2, 3, 7}), reshape_case("mixed", {3, 10}, {5, 6}),
              reshape_case("worked_out", {3, 14}, {7, -1}, {7, 6})},
             reshape_case("large", {301, 211}, {211, 301})),
      moving(
          Op::permute,
          {permute_case("empty", {0, 3}, {1, 0}), permute_case("one", {1, 1}, {1, 0}),
           permute_case("matrix", {3, 7}, {1, 0}), permute_case("transposed", {2, 3, 5}, {2, 0, 1}),
           permute_case("negative", {2, 3, 5, 1}, {-1, 1, -2, 0})},
          permute_case("large", {31, 47, 53}, {2, 0, 1})),
      moving(Op::slice,
             {slice_case("empty", {0, 3}, 1, 0, 2, 1), slice_case("nothing", {3, 5}, 0, 2, 2, 1),
              slice_case("one", {1}, 0, 0, 1, 1), slice_case("rows", {7, 3}, 0, 2, 5, 1),
              slice_case("every_third", {3, 11}, -1, 1, 10, 3),
              slice_case("from_the_back", {2, 9}, 1, -5, -1, 2),
              slice_case("past_the_end", {5}, 0, 3, 99, 1)},
             slice_case("large", {211, 307}, 1, 5, 300, 2)),
      moving(Op::expand,
             {expand_case("empty", {0, 1}, {0, 3}), expand_case("to_nothing", {1, 3}, {0, 3}),
              expand_case("one", {1}, {1, 1}), expand_case("rows", {3, 1}, {3, 7}),
              expand_case("in_front", {5}, {2, 3, 5}), expand_case("scalar", {}, {3, 5})},
             expand_case("large", {1009, 1}, {5, 1009, 41})),
      moving(Op::clone,
             {clone_case("empty", {0, 3}), clone_case("one", {1, 1}), clone_case("odd", {3, 7})},
             clone_case("large", {307, 211})),
      moving(Op::contiguous,
             {contiguous_case("empty", {0, 3}), contiguous_case("one", {1, 1}),
              contiguous_case("odd", {3, 7})},
             contiguous_case("large", {307, 211})),
      moving(Op::cat,
             {cat_case("empty", {{0, 3}, {0, 3}}, 0),
              cat_case("with_empty", {{2, 3}, {0, 3}, {1, 3}}, 0), cat_case("one", {{1}}, 0),
              cat_case("columns", {{3, 5}, {3, 1}, {3, 2}}, -1),
              cat_case("inner", {{2, 3, 5}, {2, 1, 5}}, 1)},
             cat_case("large", {{53, 307}, {11, 307}}, 0)),
      moving(Op::stack,
             {stack_case("empty", {0, 3}, 2, 0), stack_case("one", {1}, 1, 0),
              stack_case("scalars", {}, 3, 0), stack_case("front", {3, 5}, 3, 0),
              stack_case("back", {3, 5}, 2, -1)},
             stack_case("large", {53, 307}, 3, 1)),
  };
}

}  // namespace binade::optable
