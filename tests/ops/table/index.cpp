#include "binade/ops/index/index.h"

#include <numeric>

#include "binade/ops/create/create.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

int64_t at(const Array& index, int64_t i) { return static_cast<int64_t>(index[i].value); }

int positive(int64_t axis, const Array& x) {
  return static_cast<int>(axis < 0 ? axis + x.shape.rank() : axis);
}

Case gather_case(const std::string& name, const Shape& x, int64_t axis, const Shape& where,
                 DType type = DType::i64) {
  const int64_t size = x[static_cast<int>(axis < 0 ? axis + x.rank() : axis)];
  return {name,
          {{x}, index(where, size, type)},
          call2([=](const Tensor& values, const Tensor& i) { return gather(values, axis, i); }),
          reference2([=](const Array& values, const Array& i) {
            Array y(i.shape);
            for_each_index(i.shape, [&](const Shape& place) {
              Shape from = place;
              from[positive(axis, values)] = static_cast<int64_t>(i(place).value);
              y(place) = values(from);
            });
            return y;
          })};
}

Case select_case(const std::string& name, const Shape& x, int64_t axis, int64_t count,
                 DType type = DType::i64) {
  const int64_t size = x[static_cast<int>(axis < 0 ? axis + x.rank() : axis)];
  return {
      name,
      {{x}, index({count}, size, type)},
      call2([=](const Tensor& values, const Tensor& i) { return index_select(values, axis, i); }),
      reference2([=](const Array& values, const Array& i) {
        Shape shape = values.shape;
        shape[positive(axis, values)] = i.numel();
        Array y(shape);
        for_each_index(shape, [&](const Shape& place) {
          Shape from = place;
          from[positive(axis, values)] = at(i, place[positive(axis, values)]);
          y(place) = values(from);
        });
        return y;
      })};
}

// Sums of what lands on one place, in any order.
Array summed(const Array& x, const std::vector<std::vector<Real>>& added) {
  Array y(x.shape);
  for (int64_t i = 0; i < x.numel(); ++i) {
    std::vector<Real> terms = added[static_cast<size_t>(i)];
    if (terms.empty()) {
      y[i] = x[i];
      continue;
    }
    terms.push_back(x[i]);
    y[i] = sum(terms);
  }
  return y;
}

Case scatter_case(const std::string& name, const Shape& x, int64_t axis, const Shape& where) {
  const int64_t size = x[static_cast<int>(axis < 0 ? axis + x.rank() : axis)];
  return {name,
          {{x}, index(where, size), {where}},
          call3([=](const Tensor& values, const Tensor& i, const Tensor& source) {
            return scatter_add(values, axis, i, source);
          }),
          reference3([=](const Array& values, const Array& i, const Array& source) {
            std::vector<std::vector<Real>> added(values.values.size());
            for_each_index(i.shape, [&](const Shape& place) {
              Shape to = place;
              to[positive(axis, values)] = static_cast<int64_t>(i(place).value);
              added[static_cast<size_t>(values.flat(to))].push_back(source(place));
            });
            return summed(values, added);
          })};
}

// The index of a put without accumulation names each row once: count, count - 1, ...
Case put_case(const std::string& name, const Shape& x, int64_t count, bool accumulate) {
  Shape rows = x;
  rows[0] = count;
  const auto places = [=](const Tensor& like) {
    std::vector<int64_t> list(static_cast<size_t>(count));
    std::iota(list.rbegin(), list.rend(), int64_t{0});
    return tensor(std::span<const int64_t>(list), {count}, like.device());
  };
  Case test{name, {{x}, {rows}}, {}, {}};
  if (accumulate) {
    test.inputs.push_back(index({count}, x[0]));
    test.call = call3([](const Tensor& values, const Tensor& put, const Tensor& i) {
      return index_put(values, i, put, true);
    });
    test.reference = reference3([](const Array& values, const Array& put, const Array& i) {
      std::vector<std::vector<Real>> added(values.values.size());
      for_each_index(put.shape, [&](const Shape& place) {
        Shape to = place;
        to[0] = at(i, place[0]);
        added[static_cast<size_t>(values.flat(to))].push_back(put(place));
      });
      return summed(values, added);
    });
    return test;
  }
  test.call = call2([=](const Tensor& values, const Tensor& put) {
    return index_put(values, places(values), put, false);
  });
  test.reference = reference2([=](const Array& values, const Array& put) {
    Array y = values;
    for_each_index(put.shape, [&](const Shape& place) {
      Shape to = place;
      to[0] = count - 1 - place[0];
      y(to) = put(place);
    });
    return y;
  });
  return test;
}

Case embedding_case(const std::string& name, int64_t vocabulary, int64_t width, const Shape& where,
                    DType type = DType::i64) {
  return {name,
          {{{vocabulary, width}}, index(where, vocabulary, type)},
          call2([](const Tensor& weight, const Tensor& i) { return embedding(weight, i); }),
          reference2([=](const Array& weight, const Array& i) {
            Shape shape = i.shape;
            shape.push_back(width);
            Array y(shape);
            for (int64_t row = 0; row < i.numel(); ++row) {
              for (int64_t c = 0; c < width; ++c)
                y[row * width + c] = weight[at(i, row) * width + c];
            }
            return y;
          })};
}

}  // namespace

std::vector<Description> index_ops() {
  return {
      {.op = Op::gather,
       .cases = {gather_case("empty", {3, 4}, 1, {3, 0}), gather_case("one", {1}, 0, {1}),
                 gather_case("columns", {3, 7}, 1, {3, 5}), gather_case("rows", {5, 3}, 0, {7, 2}),
                 gather_case("inner", {2, 5, 3}, 1, {2, 7, 3}, DType::i32)},
       .large = gather_case("large", {211, 97}, 0, {503, 97})},
      {.op = Op::index_select,
       .cases = {select_case("empty", {3, 4}, 0, 0), select_case("one", {1}, 0, 1),
                 select_case("rows", {5, 3}, 0, 7), select_case("columns", {3, 7}, -1, 5),
                 select_case("inner", {2, 5, 3}, 1, 9, DType::i32)},
       .large = select_case("large", {211, 97}, 0, 703)},
      {.op = Op::scatter_add,
       .cases = {scatter_case("empty", {3, 4}, 1, {3, 0}), scatter_case("one", {1}, 0, {1}),
                 scatter_case("columns", {3, 5}, 1, {3, 9}),
                 scatter_case("rows", {5, 3}, 0, {7, 2})},
       .large = scatter_case("large", {211, 97}, 0, {503, 97})},
      {.op = Op::index_put,
       .cases = {put_case("empty", {3, 4}, 0, false), put_case("one", {1}, 1, false),
                 put_case("rows", {7, 3}, 4, false), put_case("accumulated", {5, 3}, 9, true),
                 put_case("accumulated_empty", {5, 3}, 0, true)},
       .large = put_case("large", {211, 97}, 503, true)},
      {.op = Op::embedding,
       .cases = {embedding_case("empty", 5, 3, {0}), embedding_case("one", 1, 1, {1}),
                 embedding_case("odd", 5, 7, {3, 5}), embedding_case("scalar", 5, 3, {}),
                 embedding_case("narrow_index", 11, 3, {2, 3, 5}, DType::i32)},
       .large = embedding_case("large", 97, 67, {13, 101})},
  };
}

}  // namespace binade::optable
