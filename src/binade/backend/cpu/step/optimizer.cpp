#include "binade/backend/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/backend/cpu/step/optimizer_rows.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"
#include "binade/formats/dynamic_code.h"
#include "binade/formats/split_f32.h"

namespace binade::backend::cpu {
namespace {

// All tensors form one list of pieces of at most norm_piece elements, so that threads share large
// and small tensors evenly. The pieces depend only on the tensors' sizes.
struct Piece {
  int64_t index;  // of all pieces
  size_t item;
  int64_t at, count;  // elements of the item
  int64_t first;      // element among those of all items
};

// The number of pieces of items of size(0), size(1), ... elements.
template <class Size>
int64_t piece_count(size_t items, Size size) {
  int64_t count = 0;
  for (size_t i = 0; i < items; ++i) count += divide_up(size(i), norm_piece);
  return count;
}

// Calls body for all pieces.
template <class Size, class F>
void for_each_piece(size_t items, Size size, F body) {
  struct Start {
    int64_t piece, element;
  };
  std::vector<Start> starts(items + 1);
  for (size_t i = 0; i < items; ++i) {
    starts[i + 1] = {starts[i].piece + divide_up(size(i), norm_piece), starts[i].element + size(i)};
  }
  parallel_for(starts[items].piece, 4, [&](int64_t begin, int64_t end) {
    const auto after =
        std::upper_bound(starts.begin(), starts.end(), begin,
                         [](int64_t index, const Start& start) { return index < start.piece; });
    size_t item = static_cast<size_t>(after - starts.begin()) - 1;
    for (int64_t index = begin; index < end; ++index) {
      while (index >= starts[item + 1].piece) ++item;
      const int64_t at = (index - starts[item].piece) * norm_piece;
      body(
          Piece{index, item, at, std::min(norm_piece, size(item) - at), starts[item].element + at});
    }
  });
}

bool skipped(const UpdateControl& control) {
  return control.skip.present && *control.skip.as<float>() != 0;
}

double factor_of(const UpdateControl& control) {
  return control.gradient_factor.present ? *control.gradient_factor.as<float>() : 1.0;
}

// The host's hyperparameters with those on the device, if any, in their place. Most rules are never
// captured: the host always knows theirs.
template <class Params>
const Params& current(const Params& hyper, const UpdateControl&) {
  return hyper;
}

AdamParams current(AdamParams hyper, const UpdateControl& control) {
  if (!control.hyper.present) return hyper;
  const auto* given = control.hyper.as<const double>();
  hyper.lr = given[0];
  hyper.correction1 = given[2];
  hyper.correction2 = given[3];
  return hyper;
}

SgdParams current(SgdParams hyper, const UpdateControl& control) {
  if (!control.hyper.present) return hyper;
  const auto* given = control.hyper.as<const double>();
  hyper.lr = given[0];
  hyper.first_step = given[1] == 1;
  return hyper;
}

MuonParams current(MuonParams hyper, const UpdateControl& control) {
  if (control.hyper.present) hyper.lr = *control.hyper.as<const double>();
  return hyper;
}

// ---- the update of one tensor's piece, common to all optimizers ----

// How a 16-bit master is rounded.
struct MasterRounding {
  bool stochastic;
  random::Key key;

  template <class Params>
  static MasterRounding of(const Params& hyper) {
    return {hyper.stochastic_rounding, rounding_key(hyper)};
  }
};

template <class T>
void store_master(const T* values, const TensorView& master, const Piece& p,
                  const MasterRounding& rounding) {
  if constexpr (std::is_same_v<T, float>) {
    const auto count = static_cast<size_t>(p.count);
    const auto first = static_cast<uint64_t>(p.first);
    if (rounding.stochastic && master.dtype == DType::bf16) {
      return formats::narrow_stochastic(values, master.as<bf16>() + p.at, count, rounding.key,
                                        first);
    }
    if (rounding.stochastic && master.dtype == DType::f16) {
      return formats::narrow_stochastic(values, master.as<f16>() + p.at, count, rounding.key,
                                        first);
    }
  }
  store(values, master, p.at, p.count);
}

// The piece of a tensor as T, in place if that is its type; null if the tensor is absent.
template <class T>
T* load_mutable(const TensorView& view, const Piece& p, T* scratch) {
  if (!view.present) return nullptr;
  return const_cast<T*>(load(view, p.at, p.count, scratch));
}

// ---- master weights in two halves ----

void join_piece(const TensorView& parameter, const TensorView& rest, const Piece& p,
                float* master) {
  const auto* nearest = parameter.as<const bf16>() + p.at;
  const auto* rests = rest.as<const int16_t>() + p.at;
  for (int64_t i = 0; i < p.count; ++i) master[i] = formats::join(nearest[i], rests[i]);
}

void split_piece(const float* master, const TensorView& parameter, const TensorView& rest,
                 const Piece& p) {
  auto* nearest = parameter.as<bf16>() + p.at;
  if (!rest.present) {
    for (int64_t i = 0; i < p.count; ++i) nearest[i] = formats::split(master[i]).nearest;
    return;
  }
  auto* rests = rest.as<int16_t>() + p.at;
  for (int64_t i = 0; i < p.count; ++i) {
    const formats::SplitF32 halves = formats::split(master[i]);
    nearest[i] = halves.nearest;
    rests[i] = halves.rest;
  }
}

void split_master(TensorView master, TensorView parameter, TensorView rest) {
  for_each_piece(
      1, [&](size_t) { return master.numel(); },
      [&](const Piece& p) { split_piece(master.as<const float>() + p.at, parameter, rest, p); });
}

void join_master(TensorView parameter, TensorView rest, TensorView master) {
  for_each_piece(
      1, [&](size_t) { return master.numel(); },
      [&](const Piece& p) { join_piece(parameter, rest, p, master.as<float>() + p.at); });
}

// A piece of the master weights of an item, in place if possible.
template <class T>
T* load_master(const UpdateItem& item, const Piece& p, T* scratch) {
  if constexpr (std::is_same_v<T, float>) {
    if (item.rest.present) {
      join_piece(item.master, item.rest, p, scratch);
      return scratch;
    }
  }
  return load_mutable(item.master, p, scratch);
}

template <class T>
void store_master(const T* values, const UpdateItem& item, const Piece& p,
                  const MasterRounding& rounding) {
  if constexpr (std::is_same_v<T, float>) {
    if (item.rest.present) return split_piece(values, item.master, item.rest, p);
  }
  store_master(values, item.master, p, rounding);
}

static_assert(norm_piece % formats::dynamic_block == 0);  // so that no block is in two pieces

// A moment, which may be 8 bits with a scale per block.
struct Moment {
  const TensorView &view, &scale;
  formats::DynamicSign sign;

  template <class T>
  T* load(const Piece& p, T* scratch) const {
    if constexpr (std::is_same_v<T, float>) {
      if (view.present && view.dtype == DType::u8) {
        formats::decode_dynamic(
            {view.as<uint8_t>() + p.at, scale.as<float>() + p.at / formats::dynamic_block, sign},
            scratch, p.count);
        return scratch;
      }
    }
    return load_mutable(view, p, scratch);
  }

  template <class T>
  void store(const T* values, const Piece& p) const {
    if (values == nullptr) return;
    if constexpr (std::is_same_v<T, float>) {
      if (view.dtype == DType::u8) {
        return formats::encode_dynamic(
            values, p.count,
            {view.as<uint8_t>() + p.at, scale.as<float>() + p.at / formats::dynamic_block, sign});
      }
    }
    cpu::store(values, view, p.at, p.count);
  }
};

// Runs change(rows, count) on every piece of every item and stores the results.
template <class T, class F>
void update_pieces(std::span<const UpdateItem> items, const MasterRounding& rounding, F change) {
  for_each_piece(
      items.size(), [&](size_t i) { return items[i].master.numel(); },
      [&](const Piece& p) {
        const UpdateItem& item = items[p.item];
        T g_scratch[norm_piece], p_scratch[norm_piece], scratch[3][norm_piece];
        const Moment first{item.first, item.first_scale, formats::DynamicSign::either},
            second{item.second, item.second_scale, formats::DynamicSign::positive};
        const UpdateRows<T> rows{.gradient = load(item.gradient, p.at, p.count, g_scratch),
                                 .parameter = load_master(item, p, p_scratch),
                                 .first = first.load(p, scratch[0]),
                                 .second = second.load(p, scratch[1]),
                                 .third = load_mutable(item.third, p, scratch[2])};
        change(rows, p.count);
        store_master(rows.parameter, item, p, rounding);
        first.store(rows.first, p);
        second.store(rows.second, p);
        if (rows.third != nullptr) store(rows.third, item.third, p.at, p.count);
        if (item.copy.present) store(rows.parameter, item.copy, p.at, p.count);
      });
}

void update(std::span<const UpdateItem> items, const UpdateRule& rule, UpdateControl control) {
  if (skipped(control)) return;
  std::visit(
      [&]<class Params>(const Params& given) {
        const Params hyper = current(given, control);
        with_master_type(items, [&](auto tag) {
          using T = typename decltype(tag)::type;
          typename Params::template Step<T> step(hyper);
          step.gradient_factor = static_cast<T>(factor_of(control));
          const RuleStep<T> any = step;
          update_pieces<T>(items, MasterRounding::of(hyper),
                           [&](const UpdateRows<T>& rows, int64_t n) {
                             optimizer_rows<T>().update(any, rows, n);
                           });
        });
      },
      rule.params);
}

// ---- norms, unscaling, clipping ----

void raise(const TensorView& flag) {
  const float one = 1;
  if (flag.present) store(&one, flag, 0, 1);
}

// A piece in f64, exact for every type.
const double* load_double(const TensorView& x, const Piece& p, double* scratch) {
  if (x.dtype == DType::f64) return load(x, p.at, p.count, scratch);
  float narrow[norm_piece];
  const float* values = load(x, p.at, p.count, narrow);
  for (int64_t i = 0; i < p.count; ++i) scratch[i] = values[i];
  return scratch;
}

// The part of one piece in the p-norm: a sum of powers, or for an infinite p the largest magnitude.
double norm_part(double p, const double* x, int64_t n) {
  const GradientSums& math = gradient_sums();
  if (p == 2) return math.square_sum(x, n);
  if (p == 1) return math.abs_sum(x, n);
  if (std::isinf(p)) {
    const double sum = math.abs_sum(x, n);  // NaN if any element is; a maximum may miss it
    return std::isnan(sum) ? sum : math.abs_max(x, n);
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::pow(std::abs(x[i]), p);
  return sum;
}

double join_parts(double p, std::span<const double> parts) {
  double total = 0;
  for (double part : parts) {
    if (!std::isinf(p)) {
      total += part;
    } else if (!(part <= total)) {
      total = part;
      if (std::isnan(part)) break;
    }
  }
  if (std::isinf(p) || p == 1) return total;
  return p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
}

// Writes the part of each piece; returns whether an element is non-finite.
bool norm_parts(std::span<const TensorView> gradients, double p, std::span<double> parts) {
  const auto size = [&](size_t i) { return gradients[i].numel(); };
  std::vector<uint8_t> bad(parts.size());
  for_each_piece(gradients.size(), size, [&](const Piece& at) {
    double scratch[norm_piece];
    const double* x = load_double(gradients[at.item], at, scratch);
    const double part = norm_part(p, x, at.count);
    parts[static_cast<size_t>(at.index)] = part;
    // A power of a finite f64 may overflow: only a non-finite element counts.
    bad[static_cast<size_t>(at.index)] =
        !std::isfinite(part) &&
        !std::all_of(x, x + at.count, [](double v) { return std::isfinite(v); });
  });
  return std::find(bad.begin(), bad.end(), 1) != bad.end();
}

void gradient_norm(std::span<const TensorView> gradients, double p, TensorView norm,
                   TensorView found_inf) {
  const auto size = [&](size_t i) { return gradients[i].numel(); };
  std::vector<double> parts(static_cast<size_t>(piece_count(gradients.size(), size)));
  const bool bad = norm_parts(gradients, p, parts);
  const double result = join_parts(p, parts);
  store(&result, norm, 0, 1);
  if (bad) raise(found_inf);
}

void gradient_norm_parts(std::span<const TensorView> gradients, TensorView parts,
                         TensorView found_inf) {
  if (norm_parts(gradients, 2, {parts.as<double>(), static_cast<size_t>(parts.numel())}))
    raise(found_inf);
}

void join_norm_parts(TensorView parts, TensorView norm) {
  const double result =
      join_parts(2, {parts.as<const double>(), static_cast<size_t>(parts.numel())});
  store(&result, norm, 0, 1);
}

void unscale(std::span<const TensorView> gradients, TensorView factor, TensorView found_inf,
             TensorView first_bad) {
  const auto size = [&](size_t i) { return gradients[i].numel(); };
  constexpr int32_t none = std::numeric_limits<int32_t>::max();
  // Index of the gradient of each piece with a non-finite element.
  std::vector<int32_t> bad(static_cast<size_t>(piece_count(gradients.size(), size)), none);
  for_each_piece(gradients.size(), size, [&](const Piece& at) {
    const TensorView& gradient = gradients[at.item];
    with_compute_type("unscale", gradient.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T scratch[norm_piece];
      const T* x = load(gradient, at.at, at.count, scratch);
      T* out = row_target(gradient, at.at, scratch);
      const T scale = static_cast<T>(*factor.as<float>());
      if (!optimizer_rows<T>().unscale(x, scale, at.count, out))
        bad[static_cast<size_t>(at.index)] = static_cast<int32_t>(at.item);
      store(out, gradient, at.at, at.count);
    });
  });
  const auto first = std::min_element(bad.begin(), bad.end());
  if (first == bad.end() || *first == none) return;
  raise(found_inf);
  if (first_bad.present) *first_bad.as<int32_t>() = std::min(*first_bad.as<int32_t>(), *first);
}

void clip_factor(TensorView norm, double max_norm, TensorView factor) {
  const float ratio = static_cast<float>(max_norm) / (*norm.as<float>() + 1e-6f);
  const float value = ratio > 1 ? 1.0f : ratio;  // NaN stays NaN
  store(&value, factor, 0, 1);
}

}  // namespace

const OptimizerKernels optimizer_kernels{.update = update,
                                         .gradient_norm = gradient_norm,
                                         .gradient_norm_parts = gradient_norm_parts,
                                         .join_norm_parts = join_norm_parts,
                                         .unscale = unscale,
                                         .clip_factor = clip_factor,
                                         .split_master = split_master,
                                         .join_master = join_master};

}  // namespace binade::backend::cpu
