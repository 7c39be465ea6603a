#include "binade/backend/cpu/step/optimizer_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/step/optimizer_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/rows/dispatch_rows.h"
#include "binade/backend/cpu/rows/vector_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void apply(const AdamStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), keep = set(step.keep), decay = set(step.decay),
          beta1 = set(step.beta1), fresh1 = set(step.fresh1), beta2 = set(step.beta2),
          fresh2 = set(step.fresh2), root = set(step.root_correction2), eps = set(step.eps),
          size = set(step.step_size);
  const bool decays = step.decay != 0;
  const auto moments = [=](V g, V& p, V& m, V& v) HWY_ATTR {
    g = hn::Mul(g, factor);
    if (decays) g = hn::MulAdd(decay, p, g);  // zero times an infinite weight would be NaN
    p = hn::Mul(p, keep);
    m = hn::MulAdd(beta1, m, hn::Mul(fresh1, g));
    v = hn::MulAdd(beta2, v, hn::Mul(hn::Mul(fresh2, g), g));
  };
  const auto move = [=](V& p, V m, V v) HWY_ATTR {
    const V denominator = hn::Add(hn::Div(hn::Sqrt(v), root), eps);
    p = hn::Sub(p, hn::Div(hn::Mul(size, m), denominator));
  };
  if (rows.third == nullptr) {
    return update<T>(
        n,
        [=](V g, V& p, V& m, V& v) HWY_ATTR {
          moments(g, p, m, v);
          move(p, m, v);
        },
        rows.gradient, rows.parameter, rows.first, rows.second);
  }
  update<T>(
      n,
      [=](V g, V& p, V& m, V& v, V& largest) HWY_ATTR {
        moments(g, p, m, v);
        // Not Max, whose result is unspecified if one is NaN: a NaN must stay visible.
        largest = hn::IfThenElse(hn::Lt(v, largest), largest, v);
        move(p, m, largest);
      },
      rows.gradient, rows.parameter, rows.first, rows.second, rows.third);
}

template <class T>
void apply(const SgdStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), decay = set(step.decay), lr = set(step.lr),
          keep = set(step.momentum);
  const V fresh = set(step.first ? T{1} : step.fresh);
  const bool decays = step.decay != 0;
  const auto decayed = [=](V g, V p) HWY_ATTR {
    g = hn::Mul(g, factor);
    return decays ? hn::MulAdd(decay, p, g) : g;  // zero times an infinite weight would be NaN
  };
  if (rows.first == nullptr) {
    return update<T>(
        n, [=](V g, V& p) HWY_ATTR { p = hn::NegMulAdd(lr, decayed(g, p), p); }, rows.gradient,
        rows.parameter);
  }
  if (step.first) std::memset(rows.first, 0, static_cast<size_t>(n) * sizeof(T));
  if (step.nesterov) {
    update<T>(
        n,
        [=](V g, V& p, V& m) HWY_ATTR {
          g = decayed(g, p);
          m = hn::MulAdd(keep, m, hn::Mul(fresh, g));
          p = hn::NegMulAdd(lr, hn::MulAdd(keep, m, g), p);
        },
        rows.gradient, rows.parameter, rows.first);
  } else {
    update<T>(
        n,
        [=](V g, V& p, V& m) HWY_ATTR {
          m = hn::MulAdd(keep, m, hn::Mul(fresh, decayed(g, p)));
          p = hn::NegMulAdd(lr, m, p);
        },
        rows.gradient, rows.parameter, rows.first);
  }
}

template <class T>
void apply(const RmspropStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), decay = set(step.decay), alpha = set(step.alpha),
          fresh = set(step.fresh), eps = set(step.eps), momentum = set(step.momentum),
          lr = set(step.lr), zero = hn::Zero(Tag<T>());
  const bool decays = step.decay != 0;
  const auto square_mean = [=](V& g, V p, V& v) HWY_ATTR {
    g = hn::Mul(g, factor);
    if (decays) g = hn::MulAdd(decay, p, g);  // zero times an infinite weight would be NaN
    v = hn::MulAdd(alpha, v, hn::Mul(hn::Mul(fresh, g), g));
  };
  // The variance: the mean square less the square of the mean.
  const auto centered = [=](V g, V& mean, V v) HWY_ATTR {
    mean = hn::MulAdd(fresh, hn::Sub(g, mean), mean);
    const V variance = hn::NegMulAdd(mean, mean, v);
    // Rounding can make it negative; a NaN stays.
    return hn::IfThenElse(hn::Lt(variance, zero), zero, variance);
  };
  const auto normalized = [=](V g, V v) HWY_ATTR { return hn::Div(g, hn::Add(hn::Sqrt(v), eps)); };
  const auto with_momentum = [=](V& m, V g) HWY_ATTR { return m = hn::MulAdd(momentum, m, g); };
  const auto move = [=](V& p, V change) HWY_ATTR { p = hn::NegMulAdd(lr, change, p); };
  if (rows.third == nullptr && rows.first == nullptr) {
    update<T>(
        n,
        [=](V g, V& p, V& v) HWY_ATTR {
          square_mean(g, p, v);
          move(p, normalized(g, v));
        },
        rows.gradient, rows.parameter, rows.second);
  } else if (rows.third == nullptr) {
    update<T>(
        n,
        [=](V g, V& p, V& m, V& v) HWY_ATTR {
          square_mean(g, p, v);
          move(p, with_momentum(m, normalized(g, v)));
        },
        rows.gradient, rows.parameter, rows.first, rows.second);
  } else if (rows.first == nullptr) {
    update<T>(
        n,
        [=](V g, V& p, V& v, V& mean) HWY_ATTR {
          square_mean(g, p, v);
          move(p, normalized(g, centered(g, mean, v)));
        },
        rows.gradient, rows.parameter, rows.second, rows.third);
  } else {
    update<T>(
        n,
        [=](V g, V& p, V& m, V& v, V& mean) HWY_ATTR {
          square_mean(g, p, v);
          move(p, with_momentum(m, normalized(g, centered(g, mean, v))));
        },
        rows.gradient, rows.parameter, rows.first, rows.second, rows.third);
  }
}

template <class T>
void apply(const AdagradStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), decay = set(step.decay), eps = set(step.eps),
          lr = set(step.lr);
  const bool decays = step.decay != 0;
  update<T>(
      n,
      [=](V g, V& p, V& sum) HWY_ATTR {
        g = hn::Mul(g, factor);
        if (decays) g = hn::MulAdd(decay, p, g);  // zero times an infinite weight would be NaN
        sum = hn::MulAdd(g, g, sum);
        p = hn::NegMulAdd(lr, hn::Div(g, hn::Add(hn::Sqrt(sum), eps)), p);
      },
      rows.gradient, rows.parameter, rows.second);
}

template <class T>
void apply(const LionStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), keep = set(step.keep), beta1 = set(step.beta1),
          fresh1 = set(step.fresh1), beta2 = set(step.beta2), fresh2 = set(step.fresh2),
          lr = set(step.lr), one = set(1), zero = hn::Zero(Tag<T>());
  update<T>(
      n,
      [=](V g, V& p, V& m) HWY_ATTR {
        g = hn::Mul(g, factor);
        const V mixed = hn::MulAdd(beta1, m, hn::Mul(fresh1, g));
        // Neither zero nor NaN has a sign.
        const auto has_sign = hn::Or(hn::Lt(mixed, zero), hn::Gt(mixed, zero));
        const V direction = hn::IfThenElse(has_sign, hn::CopySign(one, mixed), mixed);
        p = hn::NegMulAdd(lr, direction, hn::Mul(p, keep));
        m = hn::MulAdd(beta2, m, hn::Mul(fresh2, g));
      },
      rows.gradient, rows.parameter, rows.first);
}

template <class T>
void apply(const NadamStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), keep = set(step.keep), decay = set(step.decay),
          beta1 = set(step.beta1), fresh1 = set(step.fresh1), beta2 = set(step.beta2),
          fresh2 = set(step.fresh2), root = set(step.root_correction2), eps = set(step.eps),
          gradient_size = set(step.gradient_size), momentum_size = set(step.momentum_size);
  const bool decays = step.decay != 0;
  update<T>(
      n,
      [=](V g, V& p, V& m, V& v) HWY_ATTR {
        g = hn::Mul(g, factor);
        if (decays) g = hn::MulAdd(decay, p, g);  // zero times an infinite weight would be NaN
        m = hn::MulAdd(beta1, m, hn::Mul(fresh1, g));
        v = hn::MulAdd(beta2, v, hn::Mul(hn::Mul(fresh2, g), g));
        const V denominator = hn::Add(hn::Div(hn::Sqrt(v), root), eps);
        const V direction = hn::MulAdd(momentum_size, m, hn::Mul(gradient_size, g));
        p = hn::Sub(hn::Mul(p, keep), hn::Div(direction, denominator));
      },
      rows.gradient, rows.parameter, rows.first, rows.second);
}

// Rounded after each operation, as plain ops would.
template <class T>
void apply(const MuonMomentumStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), keep = set(step.momentum), fresh = set(step.fresh);
  const bool nesterov = step.nesterov;
  update<T>(
      n,
      [=](V g, V& direction, V& m) HWY_ATTR {
        g = hn::Mul(g, factor);
        m = hn::Add(m, hn::Mul(hn::Sub(g, m), fresh));
        direction = nesterov ? hn::Add(g, hn::Mul(hn::Sub(m, g), keep)) : m;
      },
      rows.gradient, rows.parameter, rows.first);
}

template <class T>
void apply(const MuonStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V keep = set(step.keep), rate = set(step.rate);
  update<T>(
      n, [=](V change, V& p) HWY_ATTR { p = hn::Sub(hn::Mul(p, keep), hn::Mul(change, rate)); },
      rows.gradient, rows.parameter);
}

template <class T>
void update_rows(const RuleStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  std::visit([&](const auto& one) { apply(one, rows, n); }, step);
}

template <class T>
bool unscale(const T* x, T factor, int64_t n, T* y) {
  using V = Vector<T>;
  const V f = hn::Set(Tag<T>(), factor), zero = hn::Zero(Tag<T>());
  // Zero times a non-finite number is NaN, and so is any sum with it.
  const T poison = reduce<Plus, T>(
      n, [zero](V acc, V v) HWY_ATTR { return hn::MulAdd(v, zero, acc); }, x);
  transform<T>(
      n, y, [f](V v) HWY_ATTR { return hn::Mul(v, f); }, x);
  return poison == 0;
}

using DoubleVector = Vector<double>;

double square_sum(const double* x, int64_t n) {
  return reduce<Plus, double>(
      n, [](DoubleVector acc, DoubleVector v) HWY_ATTR { return hn::MulAdd(v, v, acc); }, x);
}

double abs_sum(const double* x, int64_t n) {
  return reduce<Plus, double>(
      n, [](DoubleVector acc, DoubleVector v) HWY_ATTR { return hn::Add(acc, hn::Abs(v)); }, x);
}

double abs_max(const double* x, int64_t n) {
  return reduce<Larger, double>(
      n, [](DoubleVector acc, DoubleVector v) HWY_ATTR { return hn::Max(acc, hn::Abs(v)); }, x);
}

template <class T>
constexpr OptimizerRows<T> table{.update = update_rows<T>, .unscale = unscale<T>};
constexpr GradientSums sum_table{.square_sum = square_sum, .abs_sum = abs_sum, .abs_max = abs_max};

const OptimizerRows<float>* rows_f32() { return &table<float>; }
const OptimizerRows<double>* rows_f64() { return &table<double>; }
const GradientSums* sums() { return &sum_table; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

BINADE_DISPATCH_ROWS(OptimizerRows, optimizer_rows);

HWY_EXPORT(sums);
const GradientSums& gradient_sums() { return *HWY_DYNAMIC_DISPATCH(sums)(); }

}  // namespace binade::backend::cpu
#endif
