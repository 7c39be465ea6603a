#include "binade/ops/loss/margin_loss.h"

#include "ops/table/description.h"
#include "ops/table/reduced.h"

namespace binade::optable {
namespace {

using Line = std::span<const Real>;

Real ramp(const Real& x) { return times_sign(x, x.value > 0 ? 1 : 0); }

const Draw& signs() {
  static const Draw draw{.among = {-1, 1}};
  return draw;
}

// Losses of values and of targets that are +1 or -1.
Description signed_losses(Op op,
                          const std::function<Tensor(const Tensor&, const Tensor&, Reduce)>& f,
                          const std::function<Real(const Real&, const Real&)>& loss, Draw draw) {
  const auto make = [=](const std::string& name, const Shape& shape, Reduce how) {
    Input target = constant(shape, signs());
    return Case{
        name,
        {{shape, draw}, target},
        call2([=](const Tensor& x, const Tensor& y) { return f(x, y, how); }),
        reference2([=](const Array& x, const Array& y) { return reduced(zip(x, y, loss), how); })};
  };
  return {.op = op,
          .cases = {make("empty", {0, 3}, Reduce::sum), make("one", {1}, Reduce::mean),
                    make("odd", {3, 7}, Reduce::mean), make("summed", {2, 3, 5}, Reduce::sum),
                    make("apart", {3, 5}, Reduce::none)},
          .large = make("large", {211, 97}, Reduce::mean),
          .rounds = Rounds::each};
}

Description rankings() {
  // Multiples of an eighth that no margin of a tenth brings to the kink.
  const Draw eighths{.among = {-1.5, -1, -0.625, -0.25, 0.125, 0.5, 1.125, 1.75}};
  const auto make = [=](const std::string& name, const Shape& shape, double margin, Reduce how) {
    return Case{name,
                {{shape, eighths}, {shape, eighths}, constant(shape, signs())},
                call3([=](const Tensor& a, const Tensor& b, const Tensor& y) {
                  return margin_ranking_loss(a, b, y, margin, how);
                }),
                reference3([=](const Array& a, const Array& b, const Array& y) {
                  Array losses(a.shape);
                  for (int64_t i = 0; i < a.numel(); ++i)
                    losses[i] = ramp(y[i] * (b[i] - a[i]) + Real(margin));
                  return reduced(losses, how);
                })};
  };
  return {
      .op = Op::margin_ranking_loss,
      .cases = {make("empty", {0, 3}, 0.0625, Reduce::sum), make("one", {1}, 0.0625, Reduce::mean),
                make("odd", {3, 7}, 0.0625, Reduce::mean),
                make("apart", {3, 5}, 0.3125, Reduce::none)},
      .large = make("large", {211, 97}, 0.0625, Reduce::mean),
      .rounds = Rounds::each};
}

Description triplets() {
  const auto make = [](const std::string& name, const Shape& shape, double margin, Reduce how) {
    // The positive lies near, the negative far, and a large margin keeps every term above zero.
    const Draw near{.low = 0.25, .high = 1}, far{.low = 1.25, .high = 2};
    return Case{name,
                {{shape, {.low = -1, .high = 0}}, {shape, near}, {shape, far}},
                call3([=](const Tensor& a, const Tensor& p, const Tensor& n) {
                  return triplet_margin_loss(a, p, n, margin, how);
                }),
                reference3([=](const Array& a, const Array& p, const Array& n) {
                  const auto distances = [&](const Array& other) {
                    const Array gaps = zip(
                        a, other, [](const Real& x, const Real& y) { return x - y + Real(1e-6); });
                    return reduce(gaps, {-1}, false, [](Line line) {
                      std::vector<Real> squares;
                      for (const Real& v : line) squares.push_back(square(v));
                      return sqrt(sum(squares));
                    });
                  };
                  return reduced(
                      zip(distances(p), distances(n),
                          [=](const Real& l, const Real& r) { return ramp(l - r + Real(margin)); }),
                      how);
                })};
  };
  return {.op = Op::triplet_margin_loss,
          .cases = {make("empty", {0, 3}, 8, Reduce::sum), make("one", {1, 1}, 8, Reduce::mean),
                    make("odd", {3, 7}, 8, Reduce::mean), make("apart", {2, 3, 5}, 8, Reduce::none),
                    make("satisfied", {3, 5}, -4, Reduce::sum)},
          .large = make("large", {211, 31}, 16, Reduce::mean),
          .rounds = Rounds::each};
}

Description multi_margins() {
  const auto make = [](const std::string& name, int64_t rows, int64_t classes, double margin,
                       Reduce how) {
    const Draw eighths{.among = {-1.5, -1, -0.625, -0.25, 0.125, 0.5, 1.125, 1.75}};
    return Case{
        name,
        {{{rows, classes}, eighths}, index({rows}, classes)},
        call2(
            [=](const Tensor& x, const Tensor& t) { return multi_margin_loss(x, t, margin, how); }),
        reference2([=](const Array& x, const Array& t) {
          Array losses(Shape{rows});
          for (int64_t r = 0; r < rows; ++r) {
            const auto right = static_cast<int64_t>(t[r].value);
            std::vector<Real> terms;
            for (int64_t c = 0; c < classes; ++c) {
              if (c != right)
                terms.push_back(ramp(x[r * classes + c] - x[r * classes + right] + Real(margin)));
            }
            losses[r] = sum(terms) / Real(static_cast<double>(classes));
          }
          return reduced(losses, how);
        })};
  };
  return {
      .op = Op::multi_margin_loss,
      .cases = {make("empty", 0, 3, 1.0625, Reduce::sum), make("one", 1, 1, 1.0625, Reduce::mean),
                make("odd", 5, 7, 1.0625, Reduce::mean), make("apart", 3, 5, 0.5625, Reduce::none)},
      .large = make("large", 211, 97, 1.0625, Reduce::mean),
      .rounds = Rounds::each};
}

}  // namespace

std::vector<Description> margin_loss_ops() {
  return {
      signed_losses(
          Op::soft_margin_loss,
          [](const Tensor& x, const Tensor& y, Reduce how) { return soft_margin_loss(x, y, how); },
          [](const Real& x, const Real& y) { return softplus(-(y * x)); }, {.low = -3, .high = 3}),
      signed_losses(
          Op::hinge_embedding_loss,
          [](const Tensor& x, const Tensor& y, Reduce how) {
            return hinge_embedding_loss(x, y, 1, how);
          },
          [](const Real& x, const Real& y) { return y.value > 0 ? x : ramp(Real(1) - x); },
          {.among = {-1.5, -0.25, 0.5, 0.75, 1.5, 1.25}}),
      rankings(),
      triplets(),
      multi_margins(),
  };
}

}  // namespace binade::optable
