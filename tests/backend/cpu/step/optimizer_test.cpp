#include "binade/backend/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/update_rules.h"

namespace binade::backend::cpu_optimizer_test {
namespace {

const OptimizerKernels& kernels = cpu::optimizer_kernels;
constexpr double infinity = std::numeric_limits<double>::infinity();

// Sizes that fall on, before and behind the ends of vectors and pieces.
const int64_t sizes[] = {0, 1, 3, 16, 17, 2047, 2048, 2049, 10001};

struct Types {
  DType master, gradient, moment;
  bool has_copy;
  DType copy;
};
const Types type_cases[] = {
    {DType::f32, DType::f32, DType::f32, false, {}},
    {DType::f32, DType::bf16, DType::f32, true, DType::bf16},
    {DType::f32, DType::f16, DType::f32, true, DType::f16},
    {DType::f32, DType::f32, DType::bf16, true, DType::e4m3},
    {DType::f32, DType::bf16, DType::bf16, true, DType::f32},
    {DType::bf16, DType::bf16, DType::bf16, false, {}},
    {DType::f16, DType::f32, DType::f32, false, {}},
    {DType::f64, DType::f64, DType::f64, true, DType::f32},
};

std::string text(const Types& t) {
  return std::string(name(t.master)) + " " + std::string(name(t.gradient)) + " " +
         std::string(name(t.moment));
}

// Parameters of all sizes with their state.
struct Model {
  std::vector<Tensor> master, gradient, first, second, copy;
  std::vector<UpdateItem> items;

  explicit Model(const Types& t) {
    uint64_t seed = 1;
    for (const int64_t n : sizes) {
      master.push_back(noise({n}, t.master, ++seed));
      gradient.push_back(noise({n}, t.gradient, ++seed));
      first.push_back(noise({n}, t.moment, ++seed));
      Values squares = read(noise({n}, t.moment, ++seed));
      for (double& v : squares) v *= v;
      second.push_back(make({n}, t.moment, squares));
      copy.push_back(t.has_copy ? filled({n}, t.copy, NAN) : Tensor());
      items.push_back({.master = master.back(),
                       .gradient = gradient.back(),
                       .first = first.back(),
                       .second = second.back(),
                       .copy = copy.back()});
    }
  }
};

struct Expected {
  Values values, bounds;
  void add(double value, double bound, DType dtype) {
    values.push_back(value);
    bounds.push_back(bound + storage_error(dtype, std::abs(value) + bound));
  }
};

// The copy is the master rounded, exactly.
void check_copies(const Model& model, const Types& t) {
  if (!t.has_copy) return;
  for (size_t i = 0; i < model.items.size(); ++i) {
    expect_same_bits(model.copy[i], make(model.copy[i].shape(), t.copy, read(model.master[i])),
                     text(t) + " copy");
  }
}

// PyTorch's single-tensor formulas in double.
void check_adam(const Types& t, const AdamParams& a, double factor) {
  Model model(t);
  const Model before(t);
  const Tensor factor_tensor = filled({1}, DType::f32, factor);
  kernels.update(model.items, a, {.gradient_factor = factor == 1 ? Tensor() : factor_tensor});
  const double unit = sum_epsilon(t.master);
  for (size_t item = 0; item < model.items.size(); ++item) {
    const Values p0 = read(before.master[item]), g0 = read(before.gradient[item]),
                 m0 = read(before.first[item]), v0 = read(before.second[item]);
    Expected p, m, v;
    for (size_t i = 0; i < p0.size(); ++i) {
      double value = p0[i], g = g0[i] * factor, g_bound = unit * std::abs(g);
      if (a.decoupled_decay) {
        value *= 1 - static_cast<double>(a.lr) * a.weight_decay;
      } else {
        g += a.weight_decay * value;
        g_bound += 2 * unit * (std::abs(g) + std::abs(a.weight_decay * value));
      }
      const double fresh1 = 1 - static_cast<double>(a.beta1),
                   fresh2 = 1 - static_cast<double>(a.beta2);
      const double first = a.beta1 * m0[i] + fresh1 * g, second = a.beta2 * v0[i] + fresh2 * g * g;
      const double first_bound =
          4 * unit * (std::abs(a.beta1 * m0[i]) + std::abs(fresh1 * g)) + fresh1 * g_bound;
      const double second_bound = 6 * unit * second + 2 * fresh2 * std::abs(g) * g_bound;
      const double denominator =
          std::sqrt(second) / std::sqrt(static_cast<double>(a.correction2)) + a.eps;
      const double update = static_cast<double>(a.lr) / a.correction1 * first / denominator;
      const double relative = 8 * unit + 0.5 * second_bound / std::max(second, 1e-300);
      p.add(value - update,
            4 * unit * (std::abs(value) + std::abs(update)) + std::abs(update) * relative +
                static_cast<double>(a.lr) / a.correction1 * first_bound / denominator,
            t.master);
      m.add(first, first_bound, t.moment);
      v.add(second, second_bound, t.moment);
    }
    expect_within(read(model.master[item]), p.values, p.bounds, text(t) + " parameter");
    expect_within(read(model.first[item]), m.values, m.bounds, text(t) + " first moment");
    expect_within(read(model.second[item]), v.values, v.bounds, text(t) + " second moment");
  }
  check_copies(model, t);
}

TEST(CpuOptimizer, AdamAgreesWithDouble) {
  for (const Types& t : type_cases) {
    for (const bool decoupled : {true, false}) {
      const AdamParams hyper{.lr = 0.01f,
                             .beta1 = 0.9f,
                             .beta2 = 0.999f,
                             .eps = 1e-8f,
                             .weight_decay = 0.1f,
                             .correction1 = 0.19f,
                             .correction2 = 0.001999f,
                             .decoupled_decay = decoupled};
      check_adam(t, hyper, 1);
      check_adam(t, hyper, 0.125);
    }
  }
}

void check_sgd(const Types& t, const SgdParams& s, double factor) {
  Model model(t);
  const Model before(t);
  for (size_t item = 0; item < model.items.size(); ++item) {
    model.items[item].second = {};
    if (s.momentum == 0) model.items[item].first = {};
    if (s.first_step) {  // nothing may be read from there
      model.first[item] = filled(model.first[item].shape(), t.moment, NAN);
      model.items[item].first = model.first[item];
    }
  }
  const Tensor factor_tensor = filled({1}, DType::f32, factor);
  kernels.update(model.items, s, {.gradient_factor = factor_tensor});
  const double unit = sum_epsilon(t.master);
  for (size_t item = 0; item < model.items.size(); ++item) {
    const Values p0 = read(before.master[item]), g0 = read(before.gradient[item]),
                 m0 = read(before.first[item]);
    Expected p, m;
    for (size_t i = 0; i < p0.size(); ++i) {
      double g = g0[i] * factor + s.weight_decay * p0[i];
      double bound = 3 * unit * (std::abs(g0[i] * factor) + std::abs(s.weight_decay * p0[i]));
      if (s.momentum != 0) {
        const double old = s.first_step ? 0 : s.momentum * m0[i],
                     fresh = s.first_step ? 1 : 1 - s.dampening;
        const double buffer = old + fresh * g,
                     buffer_bound =
                         fresh * bound + 3 * unit * (std::abs(old) + std::abs(fresh * g));
        m.add(buffer, buffer_bound, t.moment);
        bound = s.nesterov ? bound + s.momentum * buffer_bound +
                                 3 * unit * (std::abs(g) + std::abs(buffer))
                           : buffer_bound;
        g = s.nesterov ? g + s.momentum * buffer : buffer;
      }
      p.add(p0[i] - s.lr * g, s.lr * bound + 3 * unit * (std::abs(p0[i]) + std::abs(s.lr * g)),
            t.master);
    }
    expect_within(read(model.master[item]), p.values, p.bounds, text(t) + " parameter");
    if (s.momentum != 0)
      expect_within(read(model.first[item]), m.values, m.bounds, text(t) + " momentum");
  }
  check_copies(model, t);
}

TEST(CpuOptimizer, SgdAgreesWithDouble) {
  for (const Types& t : type_cases) {
    const SgdParams plain{.lr = 0.1f, .weight_decay = 0.01f};
    const SgdParams heavy{.lr = 0.1f, .momentum = 0.9f, .dampening = 0.25f, .weight_decay = 0.01f};
    SgdParams nesterov{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .nesterov = true};
    check_sgd(t, plain, 0.5);
    check_sgd(t, heavy, 0.5);
    check_sgd(t, nesterov, 1);
    nesterov.first_step = true;
    check_sgd(t, nesterov, 1);
    SgdParams first = heavy;
    first.first_step = true;
    check_sgd(t, first, 2);
  }
}

TEST(CpuOptimizer, SkipLeavesEverything) {
  const Types t = type_cases[1];
  Model model(t);
  const Model before(t);
  const Tensor skip = filled({1}, DType::f32, 1);
  kernels.update(model.items, AdamParams{.lr = 1}, {.skip = skip});
  kernels.update(model.items, SgdParams{.lr = 1}, {.skip = skip});
  for (size_t i = 0; i < model.items.size(); ++i) {
    expect_same_bits(model.master[i], before.master[i], "master");
    expect_same_bits(model.first[i], before.first[i], "first");
    expect_same_bits(model.second[i], before.second[i], "second");
    expect_same_bits(model.copy[i], before.copy[i], "copy");
  }
  skip.mutable_data<float>()[0] = 0;
  kernels.update(model.items, SgdParams{.lr = 1}, {.skip = skip});
  EXPECT_NE(read(model.master.back()), read(before.master.back()));
}

// A captured update is replayed with hyperparameters that the host copies to the device.
TEST(CpuOptimizer, NumbersOnTheDeviceTakeThePlaceOfTheHosts) {
  const AdamParams adam{.lr = 0.017,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .eps = 1e-8,
                        .weight_decay = 0.1,
                        .correction1 = 1 - std::pow(0.9, 3),
                        .correction2 = 1 - std::pow(0.95, 3),
                        .count = 3};
  AdamParams stale = adam;
  stale.lr = 1;
  stale.correction1 = stale.correction2 = 0.5;
  stale.count = 1;
  const SgdParams sgd{.lr = 0.017, .momentum = 0.9, .dampening = 0.25, .count = 3};
  SgdParams first = sgd;
  first.lr = 1;
  first.first_step = true;
  const Tensor hyper = make({4}, DType::f64, {adam.lr, 3, adam.correction1, adam.correction2});
  const Tensor first_hyper = make({4}, DType::f64, {1, 1, 1, 1});
  for (const Types& t : type_cases) {
    const Model host(t), device(t);
    const auto compare = [&](const char* what) {
      for (size_t i = 0; i < host.items.size(); ++i) {
        expect_same_bits(device.master[i], host.master[i], what);
        expect_same_bits(device.first[i], host.first[i], what);
        expect_same_bits(device.second[i], host.second[i], what);
      }
    };
    kernels.update(host.items, adam, {});
    kernels.update(device.items, stale, {.hyper = hyper});
    compare("adam");
    kernels.update(host.items, first, {});
    kernels.update(device.items, sgd, {.hyper = first_hyper});
    compare("first sgd");
    kernels.update(host.items, sgd, {});
    kernels.update(device.items, first, {.hyper = hyper});
    compare("sgd");
  }
}

// 1 less an eighth of the type's spacing below it.
double eighth_below_1(DType dtype) { return dtype == DType::bf16 ? 0x1p-11 : 0x1p-14; }

Tensor stochastic_step(int64_t n, uint64_t step, std::vector<int64_t> cuts,
                       DType dtype = DType::bf16) {
  const Tensor master = filled({n}, dtype, 1),
               gradient = filled({n}, DType::f32, eighth_below_1(dtype));
  std::vector<UpdateItem> items;
  cuts.push_back(n);
  for (int64_t at = 0; const int64_t end : cuts) {
    const Shape shape{end - at};
    items.push_back(
        {.master = master.strided(shape, {1}, at), .gradient = gradient.strided(shape, {1}, at)});
    at = end;
  }
  kernels.update(items, SgdParams{.lr = 1, .stochastic_rounding = true, .seed = 7, .step = step},
                 {});
  return master;
}

TEST(CpuOptimizer, StochasticRoundingMovesA16BitMasterOnAverage) {
  const int64_t n = 40000;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double step = eighth_below_1(dtype);
    const Values found = read(stochastic_step(n, 1, {}, dtype));
    const int64_t moved = std::count(found.begin(), found.end(), 1 - 8 * step);
    EXPECT_EQ(moved + std::count(found.begin(), found.end(), 1.0), n);
    // Binomial(n, 1/8): five standard deviations are 331.
    EXPECT_NEAR(static_cast<double>(moved), n / 8.0, 331);

    const Tensor nearest = filled({4}, dtype, 1), gradient = filled({4}, DType::f32, step);
    kernels.update(std::vector<UpdateItem>{{.master = nearest, .gradient = gradient}},
                   SgdParams{.lr = 1}, {});
    EXPECT_EQ(read(nearest), Values(4, 1.0));
    // What the type can hold is not random.
    const Tensor exact = filled({4}, dtype, 1), whole = filled({4}, DType::f32, 8 * step);
    kernels.update(std::vector<UpdateItem>{{.master = exact, .gradient = whole}},
                   SgdParams{.lr = 1, .stochastic_rounding = true, .seed = 7, .step = 1}, {});
    EXPECT_EQ(read(exact), Values(4, 1 - 8 * step));
  }
}

TEST(CpuOptimizer, StochasticRoundingDependsOnStepAndElementAlone) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto stepped = [&](uint64_t step, std::vector<int64_t> cuts) {
      return stochastic_step(5000, step, std::move(cuts), dtype);
    };
    const Tensor whole = stepped(1, {});
    expect_same_bits(stepped(1, {}), whole, "again");
    expect_same_bits(stepped(1, {1, 700, 700, 4097}), whole, "as several items");
    EXPECT_NE(read(stepped(2, {})), read(whole));
  }
}

TEST(CpuOptimizer, UpdatesDoNotDependOnThreads) {
  const Types t = type_cases[4];
  std::vector<Model> models;
  for (const int count : {1, 2, 8}) {
    const ThreadCount threads(count);
    models.emplace_back(t);
    kernels.update(models.back().items,
                   AdamParams{.lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f}, {});
  }
  for (size_t i = 0; i < models[0].items.size(); ++i) {
    for (const size_t k : {1u, 2u}) {
      expect_same_bits(models[k].master[i], models[0].master[i], "master");
      expect_same_bits(models[k].first[i], models[0].first[i], "first");
      expect_same_bits(models[k].copy[i], models[0].copy[i], "copy");
    }
  }
}

// ---- norms, unscaling, clipping ----

struct Gradients {
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;

  explicit Gradients(double scale = 1) {
    uint64_t seed = 50;
    for (const DType dtype : compute_types) {
      for (const int64_t n : sizes) {
        Values values = read(noise({n}, DType::f64, ++seed));
        for (double& v : values) v *= dtype == DType::f16 ? 1 : scale;
        tensors.push_back(make({n}, dtype, values));
        views.push_back(tensors.back());
      }
    }
  }
};

double norm_of(const Gradients& gradients, double p, const Tensor& found_inf = {}) {
  const Tensor norm = filled({1}, DType::f32, NAN);
  kernels.gradient_norm(gradients.views, p, norm, found_inf);
  return norm.data<float>()[0];
}

TEST(CpuOptimizer, NormAgreesWithDouble) {
  for (const double scale : {1.0, 1e25, 1e-30}) {  // squares of which f32 cannot hold
    const Gradients gradients(scale);
    for (const double p : {1.0, 2.0, 3.0, infinity}) {
      double sum = 0, largest = 0;
      for (const Tensor& tensor : gradients.tensors) {
        for (const double v : read(tensor)) {
          sum += std::pow(std::abs(v), p);
          largest = std::max(largest, std::abs(v));
        }
      }
      const double expected = std::isinf(p) ? largest : std::pow(sum, 1 / p);
      EXPECT_NEAR(norm_of(gradients, p), expected, epsilon(DType::f32) * expected) << p;
    }
  }
}

TEST(CpuOptimizer, NormOfNothingIsZero) {
  const Tensor norm = filled({1}, DType::f32, NAN);
  for (const double p : {1.0, 2.0, 3.0, infinity}) {
    kernels.gradient_norm({}, p, norm, {});
    EXPECT_EQ(norm.data<float>()[0], 0);
  }
}

TEST(CpuOptimizer, NormFindsWhatIsNotFinite) {
  const Tensor flag = filled({1}, DType::f32, 0);
  const Gradients good;
  norm_of(good, 2, flag);
  EXPECT_EQ(flag.data<float>()[0], 0);
  flag.mutable_data<float>()[0] = 0.5f;
  norm_of(good, 2, flag);
  EXPECT_EQ(flag.data<float>()[0], 0.5f) << "left alone where all is finite";
  for (const double p : {1.0, 2.0, 3.0, infinity}) {
    for (const float bad : {static_cast<float>(infinity), -static_cast<float>(infinity), NAN}) {
      for (const int64_t where : {int64_t{0}, int64_t{5000}, int64_t{10000}}) {
        const Gradients gradients;
        gradients.tensors[17].mutable_data<float>()[where] = bad;  // the largest of f32
        flag.mutable_data<float>()[0] = 0;
        const double norm = norm_of(gradients, p, flag);
        EXPECT_EQ(flag.data<float>()[0], 1);
        EXPECT_EQ(std::isnan(norm), std::isnan(bad)) << p;
        EXPECT_FALSE(std::isfinite(norm));
      }
    }
  }
}

TEST(CpuOptimizer, AFiniteNormThatOverflowsIsNoInfiniteGradient) {
  const Tensor huge = filled({3}, DType::f64, 1e200), flag = filled({1}, DType::f32, 0),
               norm = filled({1}, DType::f32, 0);
  kernels.gradient_norm(std::vector<TensorView>{huge}, 2, norm, flag);
  EXPECT_EQ(flag.data<float>()[0], 0);
  EXPECT_EQ(norm.data<float>()[0], infinity);
}

TEST(CpuOptimizer, UnscaleMultipliesAndFindsWhatIsNotFinite) {
  const Tensor factor = filled({1}, DType::f32, 1.0 / 3), flag = filled({1}, DType::f32, 0);
  const double third = factor.data<float>()[0];
  const Gradients gradients, before;
  kernels.unscale(gradients.views, factor, flag, {});
  for (size_t i = 0; i < before.tensors.size(); ++i) {
    const DType dtype = before.tensors[i].dtype();
    Values expected = read(before.tensors[i]);
    for (double& v : expected) v = dtype == DType::f64 ? v * third : static_cast<float>(v * third);
    expect_same_bits(gradients.tensors[i], make(before.tensors[i].shape(), dtype, expected),
                     std::string(name(dtype)));
  }
  EXPECT_EQ(flag.data<float>()[0], 0);
  for (const float bad : {static_cast<float>(infinity), NAN}) {
    const Gradients spoiled;
    spoiled.tensors[17].mutable_data<float>()[10000] = bad;
    flag.mutable_data<float>()[0] = 0;
    kernels.unscale(spoiled.views, factor, flag, {});
    EXPECT_EQ(flag.data<float>()[0], 1);
    kernels.unscale(spoiled.views, factor, {}, {});  // the flag is optional
  }
  const Tensor large = filled({2}, DType::f32, 3e38), big = filled({1}, DType::f32, 4);
  flag.mutable_data<float>()[0] = 0;
  kernels.unscale(std::vector<TensorView>{large}, big, flag, {});
  EXPECT_EQ(flag.data<float>()[0], 0) << "it was finite before the product";
}

TEST(CpuOptimizer, ClipFactorNeverGrowsAGradient) {
  const auto factor_for = [](double norm_value, double max_norm) {
    const Tensor norm = filled({1}, DType::f32, norm_value), factor = filled({1}, DType::f32, 0);
    kernels.clip_factor(norm, max_norm, factor);
    return factor.data<float>()[0];
  };
  EXPECT_EQ(factor_for(0.5, 1), 1);
  EXPECT_EQ(factor_for(0, 1), 1);
  EXPECT_FLOAT_EQ(factor_for(4, 1), 1 / (4 + 1e-6f));
  EXPECT_EQ(factor_for(infinity, 1), 0);
  EXPECT_TRUE(std::isnan(factor_for(NAN, 1)));
}

TEST(CpuOptimizer, NormsDoNotDependOnThreads) {
  const Gradients gradients;
  std::vector<double> norms;
  for (const int count : {1, 2, 8}) {
    const ThreadCount threads(count);
    norms.push_back(norm_of(gradients, 2));
  }
  EXPECT_EQ(norms[1], norms[0]);
  EXPECT_EQ(norms[2], norms[0]);
}

}  // namespace
}  // namespace binade::backend::cpu_optimizer_test
