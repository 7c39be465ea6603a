#include "binade/ops/shape/rearrange.h"

#include <algorithm>

#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/shape/pad.h"
#include "ops/table/description.h"

// Ops that move elements to other places, or hide them: exact.
namespace binade::optable {
namespace {

using List = std::vector<int64_t>;

// y(i) = x(from(i)), or `otherwise` if there is no such element.
struct Source {
  Shape at;
  bool exists = true;
};
Array moved(const Array& x, const Shape& shape, FunctionRef<Source(const Shape&)> from,
            double otherwise = 0) {
  Array y(shape);
  for_each_index(shape, [&](const Shape& i) {
    const Source source = from(i);
    y(i) = source.exists ? x(source.at) : Real(otherwise);
  });
  return y;
}

Description exact_moves(Op op, std::vector<Case> cases, Case large) {
  return {.op = op, .cases = std::move(cases), .large = std::move(large), .rounds = Rounds::each};
}

int positive(int64_t axis, const Shape& shape) {
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

Case flip_case(const std::string& name, const Shape& shape, const List& axes) {
  return {name,
          {{shape}},
          call1([=](const Tensor& x) { return flip(x, axes); }),
          reference1([=](const Array& x) {
            return moved(x, shape, [&](Shape i) {
              for (const int64_t axis : axes) {
                const int at = positive(axis, shape);
                i[at] = shape[at] - 1 - i[at];
              }
              return Source{i};
            });
          })};
}

Case roll_case(const std::string& name, const Shape& shape, const List& shifts, const List& axes) {
  return {name,
          {{shape}},
          call1([=](const Tensor& x) { return roll(x, shifts, axes); }),
          reference1([=](const Array& x) {
            const auto wrapped = [](int64_t i, int64_t size) { return ((i % size) + size) % size; };
            Array y = x;
            if (axes.empty()) {
              for (int64_t i = 0; i < x.numel(); ++i) y[wrapped(i + shifts[0], x.numel())] = x[i];
              return y;
            }
            return moved(x, shape, [&](Shape i) {
              for (size_t k = 0; k < axes.size(); ++k) {
                const int at = positive(axes[k], shape);
                i[at] = wrapped(i[at] - shifts[k], shape[at]);
              }
              return Source{i};
            });
          })};
}

Case repeat_case(const std::string& name, const Shape& shape, const List& times) {
  return {name,
          {{shape}},
          call1([=](const Tensor& x) { return repeat(x, times); }),
          reference1([=](const Array& x) {
            const int rank = static_cast<int>(times.size()), in_front = rank - shape.rank();
            Shape result;
            for (int axis = 0; axis < rank; ++axis)
              result.push_back(times[static_cast<size_t>(axis)] *
                               (axis < in_front ? 1 : shape[axis - in_front]));
            return moved(x, result, [&](const Shape& i) {
              Source source{shape};
              for (int axis = 0; axis < shape.rank(); ++axis)
                source.at[axis] = i[axis + in_front] % shape[axis];
              return source;
            });
          })};
}

Case triangle_case(const std::string& name, const Shape& shape, int64_t diagonal, bool lower) {
  return {name,
          {{shape}},
          call1([=](const Tensor& x) { return lower ? tril(x, diagonal) : triu(x, diagonal); }),
          reference1([=](const Array& x) {
            return moved(x, shape, [&](const Shape& i) {
              const int64_t above = i[shape.rank() - 1] - i[shape.rank() - 2];
              return Source{i, lower ? above <= diagonal : above >= diagonal};
            });
          })};
}

Description triangles(Op op, bool lower) {
  const auto make = [=](const std::string& name, const Shape& shape, int64_t diagonal) {
    return triangle_case(name, shape, diagonal, lower);
  };
  return exact_moves(op,
                     {make("empty", {0, 3}, 0), make("one", {1, 1}, 0), make("square", {5, 5}, 0),
                      make("wide", {3, 7}, 2), make("tall", {7, 3}, -2),
                      make("batched", {2, 3, 5}, 1), make("nothing", {3, 3}, lower ? -3 : 3)},
                     make("large", {3, 211, 307}, -5));
}

Case pad_case(const std::string& name, const Shape& shape, const List& padding,
              PadOptions options) {
  return {name,
          {{shape}},
          call1([=](const Tensor& x) { return pad(x, padding, options); }),
          reference1([=](const Array& x) {
            Shape result = shape;
            for (size_t k = 0; k < padding.size(); ++k)
              result[shape.rank() - 1 - static_cast<int>(k / 2)] += padding[k];
            return moved(
                x, result,
                [&](Shape i) {
                  bool exists = true;
                  for (size_t k = 0; k < padding.size(); k += 2) {
                    const int at = shape.rank() - 1 - static_cast<int>(k / 2);
                    const int64_t last = shape[at] - 1;
                    i[at] -= padding[k];
                    if (options.mode == PadMode::reflect)
                      i[at] = i[at] < 0 ? -i[at] : i[at] > last ? 2 * last - i[at] : i[at];
                    if (options.mode == PadMode::replicate)
                      i[at] = std::clamp<int64_t>(i[at], 0, last);
                    exists = exists && i[at] >= 0 && i[at] <= last;
                  }
                  return Source{i, exists};
                },
                options.value);
          })};
}

Case masked_fill_case(const std::string& name, const Shape& shape, const Shape& mask) {
  return {name,
          {{shape}, boolean(mask)},
          call2([](const Tensor& x, const Tensor& m) { return masked_fill(x, m, -1.5); }),
          reference2([](const Array& x, const Array& m) {
            return moved(
                x, x.shape,
                [&](const Shape& i) {
                  return Source{i, broadcast_at(m, i).value == 0};
                },
                -1.5);
          })};
}

// The first k of each line in order; all of them without k.
Case sort_case(const std::string& name, const Shape& shape, int64_t axis, Order order,
               std::optional<int64_t> k = {}) {
  return {name,
          {{shape, {.distinct = true}}},
          call1([=](const Tensor& x) {
            return k ? topk(x, *k, axis, order).values : sort(x, axis, order).values;
          }),
          reference1([=](const Array& x) {
            const Array sorted = along(x, axis, [&](std::span<const Real> line) {
              std::vector<Real> y(line.begin(), line.end());
              std::sort(y.begin(), y.end(), [&](const Real& a, const Real& b) {
                return order == Order::ascending ? a.value < b.value : a.value > b.value;
              });
              return y;
            });
            Shape result = shape;
            if (k) result[positive(axis, shape)] = *k;
            return moved(sorted, result, [](const Shape& i) { return Source{i}; });
          })};
}

}  // namespace

std::vector<Description> rearranging_ops() {
  constexpr Order up = Order::ascending, down = Order::descending;
  constexpr PadMode reflect = PadMode::reflect, replicate = PadMode::replicate;
  return {
      exact_moves(Op::flip,
                  {flip_case("empty", {0, 3}, {0}), flip_case("one", {1}, {0}),
                   flip_case("rows", {3, 5}, {0}), flip_case("both", {3, 5}, {0, -1}),
                   flip_case("inner", {2, 3, 5}, {1}), flip_case("none", {3, 5}, {})},
                  flip_case("large", {211, 307}, {0, 1})),
      exact_moves(Op::roll,
                  {roll_case("empty", {0, 3}, {1}, {0}), roll_case("one", {1}, {3}, {0}),
                   roll_case("rows", {5, 3}, {2}, {0}), roll_case("back", {3, 7}, {-3}, {-1}),
                   roll_case("two", {3, 5}, {1, -2}, {0, 1}), roll_case("far", {5}, {13}, {0}),
                   roll_case("flat", {3, 5}, {4}, {})},
                  roll_case("large", {211, 307}, {17}, {1})),
      exact_moves(Op::repeat,
                  {repeat_case("empty", {0, 3}, {2, 1}), repeat_case("to_nothing", {3}, {0}),
                   repeat_case("one", {1}, {1}), repeat_case("rows", {3, 5}, {2, 1}),
                   repeat_case("in_front", {3}, {2, 2, 3}), repeat_case("scalar", {}, {3})},
                  repeat_case("large", {53, 67}, {3, 2})),
      triangles(Op::tril, true),
      triangles(Op::triu, false),
      exact_moves(Op::pad,
                  {pad_case("empty", {0, 3}, {1, 1}, {}), pad_case("one", {1}, {1, 2}, {}),
                   pad_case("odd", {3, 5}, {1, 2, 0, 3}, {.value = 0.5}),
                   pad_case("cropped", {5, 7}, {-2, 1, 1, -3}, {}),
                   pad_case("reflected", {3, 5}, {4, 2, 1, 0}, {.mode = reflect}),
                   pad_case("replicated", {2, 3, 5}, {7, 1, 2, 0}, {.mode = replicate}),
                   pad_case("replicated_one", {1, 1}, {2, 3}, {.mode = replicate})},
                  pad_case("large", {53, 67}, {17, 5, 3, 2}, {.mode = reflect})),
      exact_moves(Op::masked_fill,
                  {masked_fill_case("empty", {0, 3}, {0, 3}), masked_fill_case("one", {1}, {1}),
                   masked_fill_case("odd", {3, 7}, {3, 7}), masked_fill_case("row", {3, 5}, {5}),
                   masked_fill_case("column", {2, 3, 5}, {3, 1})},
                  masked_fill_case("large", {211, 307}, {211, 1})),
      exact_moves(Op::sort,
                  {sort_case("empty", {0, 3}, 1, up), sort_case("nothing", {3, 0}, 1, up),
                   sort_case("one", {1}, 0, up), sort_case("rows", {3, 7}, -1, up),
                   sort_case("columns", {5, 3}, 0, down), sort_case("inner", {2, 5, 3}, 1, down)},
                  sort_case("large", {61, 401}, 1, down)),
      exact_moves(Op::topk,
                  {sort_case("empty", {0, 3}, 1, down, 2), sort_case("none", {3, 5}, 1, down, 0),
                   sort_case("one", {1}, 0, down, 1), sort_case("rows", {3, 7}, -1, down, 3),
                   sort_case("smallest", {5, 3}, 0, up, 2), sort_case("all", {2, 5}, 1, down, 5)},
                  sort_case("large", {61, 401}, 1, down, 17)),
  };
}

}  // namespace binade::optable
