#include "binade/backend/optimizer.h"

#include <array>
#include <map>

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/multi_tensor.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/step/multi_tensor_gradients.h"
#include "binade/backend/optimizer_step.h"
#include "binade/formats/split_f32.h"

namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;
constexpr int pack = 4;       // 16 bytes of f32
constexpr int in_flight = 2;  // packs of every tensor that a thread loads at a time
constexpr int64_t chunk = int64_t{threads} * pack * in_flight * 2;

// a * b rounded, never fused with a following addition, so that results equal the CPU's.
__device__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ double product(double a, double b) { return __dmul_rn(a, b); }

// The last four of UpdateControl::hyper.
__device__ RatesAfterSkips rates_in(const double* hyper) {
  RatesAfterSkips rates;
  for (int i = 0; i < RatesAfterSkips::capacity; ++i) rates.lr[i] = hyper[4 + i];
  rates.known = hyper[4 + RatesAfterSkips::capacity];
  return rates;
}

// ---- the update of one element ----

template <class C>
struct AdamRule : AdamStep<C> {
  using type = C;
  static constexpr const char* name = "adam";
  // Kept to recompute the scalars for another lr or count.
  double lr, correction1, correction2;
  double decay1, decay2;  // the betas
  double decoupled;       // weight decay of the parameter itself
  int64_t count;
  RatesAfterSkips after_skips;

  explicit AdamRule(const AdamParams& n)
      : AdamStep<C>(n),
        lr(n.lr),
        correction1(n.correction1),
        correction2(n.correction2),
        decay1(n.beta1),
        decay2(n.beta2),
        decoupled(n.decoupled_decay ? n.weight_decay : 0.0),
        count(n.count),
        after_skips(n.after_skips) {}

  // Replaces the host's values by UpdateControl::hyper.
  __device__ void set(const double* hyper) {
    lr = hyper[0];
    count = static_cast<int64_t>(hyper[1]);
    correction1 = hyper[2];
    correction2 = hyper[3];
    after_skips = rates_in(hyper);
    derive();
  }

  __device__ void set_rate(double rate) {
    lr = rate;
    derive();
  }

  // Corrects for counted updates that were skipped.
  __device__ void without(int64_t skipped) {
    const auto updates = static_cast<double>(count - skipped);
    correction1 = 1 - pow(decay1, updates);
    correction2 = 1 - pow(decay2, updates);
    derive();
  }

  __device__ void derive() {
    this->keep = static_cast<C>(1 - product(lr, decoupled));
    this->root_correction2 = static_cast<C>(sqrt(correction2));
    this->step_size = static_cast<C>(lr / correction1);
  }

  __device__ void operator()(C g, C& p, C& m, C& v, bool) const {
    const AdamStep<C>& s = *this;
    g = product(g, s.gradient_factor);
    if (s.decay != 0) g = fma(s.decay, p, g);  // zero times an infinite weight would be NaN
    p = product(p, s.keep);
    m = fma(s.beta1, m, product(s.fresh1, g));
    v = fma(s.beta2, v, product(product(s.fresh2, g), g));
    p -= product(s.step_size, m) / (sqrt(v) / s.root_correction2 + s.eps);
  }
};

template <class C>
struct SgdRule : SgdStep<C> {
  using type = C;
  static constexpr const char* name = "sgd";
  int64_t count;
  double lr;
  RatesAfterSkips after_skips;

  explicit SgdRule(const SgdParams& n)
      : SgdStep<C>(n), count(n.count), lr(n.lr), after_skips(n.after_skips) {}

  __device__ void set(const double* hyper) {
    count = static_cast<int64_t>(hyper[1]);
    after_skips = rates_in(hyper);
    set_rate(hyper[0]);
    without(0);
  }

  __device__ void set_rate(double rate) {
    lr = rate;
    SgdStep<C>::lr = static_cast<C>(rate);
  }

  __device__ void without(int64_t skipped) { this->first = count - skipped == 1; }

  __device__ void operator()(C g, C& p, C& m, C&, bool has_momentum) const {
    const SgdStep<C>& s = *this;
    g = product(g, s.gradient_factor);
    if (s.decay != 0) g = fma(s.decay, p, g);  // zero times an infinite weight would be NaN
    if (has_momentum) {
      m = fma(s.momentum, s.first ? C{0} : m, product(s.first ? C{1} : s.fresh, g));
      g = s.nesterov ? fma(s.momentum, m, g) : m;
    }
    p = fma(-s.lr, g, p);
  }
};

// ---- the kernel: one update of many tensors that share their types ----

struct UpdateTensors {
  void *master, *rest, *gradient, *first, *second, *copy;
  const float* skipped;
  int64_t count;
  uint64_t first_index;  // of its elements among those of all tensors
};

struct UpdateTypes {
  DType master, gradient, first, second, copy;
  bool packed;  // all are aligned for packs

  auto operator<=>(const UpdateTypes&) const = default;
};

constexpr int capacity = 48;  // as many as fit into a kernel's parameters
using UpdateList = TensorList<UpdateTensors, capacity, chunk>;

template <class Rule>
struct Update {
  UpdateList list;
  UpdateTypes types;
  Rule rule;
  const float* factor;
  const float* skip;
  const double* hyper;
  const float* skipped_steps;
  random::Key key;  // of a 16-bit master's stochastic rounding
};

// random::bits for N elements from `index` on.
template <int N>
__device__ void draw(random::Key key, uint64_t index, uint32_t (&bits)[N]) {
  if (N == 4 && index % 4 == 0) {
    const auto words = random::block(key.seed, key.stream, index / 4);
#pragma unroll
    for (int i = 0; i < N; ++i) bits[i] = words[i];
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) bits[i] = random::bits(key.seed, key.stream, index + i);
  }
}

template <const formats::Format& F>
__device__ float round_randomly(float x, uint32_t bits) {
  const uint32_t code =
      formats::encode<F>(x, formats::Rounding::stochastic, formats::Overflow::special, bits);
  return formats::decode<F>(code);
}

// N rests of split master weights (formats/split_f32.h).
template <int N>
using Rests = Pack<int16_t, N>;

template <class Rule, int N>
struct Elements {
  using C = typename Rule::type;
  Fetched<C, N> gradient, master, first, second;
  Rests<N> rests;

  __device__ void read(const Update<Rule>& u, const UpdateTensors& t, int64_t at) {
    gradient = fetch<C, N>({t.gradient, u.types.gradient}, at);
    master = fetch<C, N>({t.master, u.types.master}, at);
    if (t.rest != nullptr) rests = load_pack<int16_t, N>(static_cast<const int16_t*>(t.rest) + at);
    if (t.first != nullptr) first = fetch<C, N>({t.first, u.types.first}, at);
    if (t.second != nullptr) second = fetch<C, N>({t.second, u.types.second}, at);
  }

  template <bool Stochastic>
  __device__ void update(const Update<Rule>& u, const Rule& rule, const UpdateTensors& t,
                         int64_t at) const {
    C g[N], p[N], m[N] = {}, v[N] = {};
    widen(gradient, u.types.gradient, g);
    widen(master, u.types.master, p);
    if (t.rest != nullptr) join_rests(p);
    if (t.first != nullptr) widen(first, u.types.first, m);
    if (t.second != nullptr) widen(second, u.types.second, v);
#pragma unroll
    for (int i = 0; i < N; ++i) rule(g[i], p[i], m[i], v[i], t.first != nullptr);
    if (t.first != nullptr) store({t.first, u.types.first}, at, m);
    if (t.second != nullptr) store({t.second, u.types.second}, at, v);
    if (t.copy != nullptr) store({t.copy, u.types.copy}, at, p);
    if (t.rest != nullptr) {
      split_rests(t, at, p);
    } else if constexpr (Stochastic) {
      round_master(u, t, at, p);
    }
    store({t.master, u.types.master}, at, p);
  }

  // p is of bf16 values. Only f32 master weights are split.
  __device__ void join_rests(C (&p)[N]) const {
    if constexpr (std::is_same_v<C, float>) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        p[i] = formats::join(bf16::from_bits(static_cast<uint16_t>(__float_as_uint(p[i]) >> 16)),
                             rests[i]);
    }
  }

  // Stores the rests and leaves the bf16 values in p.
  __device__ static void split_rests(const UpdateTensors& t, int64_t at, C (&p)[N]) {
    if constexpr (std::is_same_v<C, float>) {
      Rests<N> kept;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const formats::SplitF32 halves = formats::split(p[i]);
        kept[i] = halves.rest;
        p[i] = __uint_as_float(uint32_t{halves.nearest.bits} << 16);
      }
      store_pack(static_cast<int16_t*>(t.rest) + at, kept);
    }
  }

  // Rounds p to values of the master's type, which storing does not change.
  __device__ static void round_master(const Update<Rule>& u, const UpdateTensors& t, int64_t at,
                                      C (&p)[N]) {
    uint32_t bits[N];
    draw(u.key, t.first_index + static_cast<uint64_t>(at), bits);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (u.types.master == DType::bf16) p[i] = round_randomly<formats::spec::bf16>(p[i], bits[i]);
      if (u.types.master == DType::f16) p[i] = round_randomly<formats::spec::f16>(p[i], bits[i]);
    }
  }
};

template <class Rule, bool Stochastic>
__global__ void __launch_bounds__(threads) update_kernel(const __grid_constant__ Update<Rule> u) {
  using C = typename Rule::type;
  static_assert(sizeof(Update<Rule>) <= parameter_bytes);
  if (u.skip != nullptr && *u.skip != 0) return;
  Rule rule = u.rule;
  if (u.hyper != nullptr) rule.set(u.hyper);
  if (u.skipped_steps != nullptr && *u.skipped_steps > rule.after_skips.known)
    rule.set_rate(learning_rate(rule.lr, rule.after_skips, *u.skipped_steps));
  if (u.factor != nullptr) rule.gradient_factor = static_cast<C>(*u.factor);
  const auto [item, begin, end] = u.list.part(blockIdx.x);
  const UpdateTensors& tensors = u.list.items[item];
  if (tensors.skipped != nullptr && *tensors.skipped > 0)
    rule.without(static_cast<int64_t>(*tensors.skipped));
  int64_t singles = begin;
  if constexpr (std::is_same_v<C, float>) {
    if (u.types.packed) {
      singles = end - (end - begin) % pack;
      constexpr int64_t step = int64_t{threads} * pack;
      for (int64_t at = begin + threadIdx.x * pack; at < singles; at += in_flight * step) {
        Elements<Rule, pack> elements[in_flight];
#pragma unroll
        for (int k = 0; k < in_flight; ++k)
          if (at + k * step < singles) elements[k].read(u, tensors, at + k * step);
#pragma unroll
        for (int k = 0; k < in_flight; ++k)
          if (at + k * step < singles)
            elements[k].template update<Stochastic>(u, rule, tensors, at + k * step);
      }
    }
  }
  for (int64_t at = singles + threadIdx.x; at < end; at += threads) {
    Elements<Rule, 1> element;
    element.read(u, tensors, at);
    element.template update<Stochastic>(u, rule, tensors, at);
  }
}

// ---- on the host ----

UpdateTypes types_of(const UpdateItem& item) {
  const TensorView* views[] = {&item.master, &item.gradient, &item.first, &item.second, &item.copy};
  bool packed = true;
  for (const TensorView* view : views) {
    if (!view->present) continue;
    const auto address = reinterpret_cast<uintptr_t>(view->data);
    if (view->dtype == DType::f64 || address % (pack * size_of(view->dtype)) != 0) packed = false;
  }
  if (item.rest.present && !packs_fit<int16_t, pack>(item.rest.data)) packed = false;
  return {item.master.dtype, item.gradient.dtype, item.first.dtype,
          item.second.dtype, item.copy.dtype,     packed};
}

// One launch per list of tensors with the same types.
template <class Rule, class Params>
void update_all(std::span<const UpdateItem> items, const Rule& rule, const Params& hyper,
                const UpdateControl& control) {
  const auto start = [&](const UpdateTypes& types, const UpdateList& list) {
    const auto optional = [](const TensorView& view) {
      return view.present ? view.as<float>() : nullptr;
    };
    const Update<Rule> update{.list = list,
                              .types = types,
                              .rule = rule,
                              .factor = optional(control.gradient_factor),
                              .skip = optional(control.skip),
                              .hyper = control.hyper.present ? control.hyper.as<double>() : nullptr,
                              .skipped_steps = optional(control.skipped_steps),
                              .key = rounding_key(hyper)};
    auto* kernel = update_kernel<Rule, false>;
    if constexpr (std::is_same_v<typename Rule::type, float>) {
      if (hyper.stochastic_rounding && size_of(types.master) == 2)
        kernel = update_kernel<Rule, true>;
    }
    launch(kernel, list.blocks(), threads, 0, update);
  };
  std::map<UpdateTypes, UpdateList> lists;
  uint64_t first_index = 0;
  for (const UpdateItem& item : items) {
    require_compute(Rule::name,
                    {&item.master, &item.gradient, &item.first, &item.second, &item.copy});
    const UpdateTypes types = types_of(item);
    UpdateList& list = lists[types];
    list.add({.master = item.master.data,
              .rest = item.rest.present ? item.rest.data : nullptr,
              .gradient = item.gradient.data,
              .first = item.first.data,
              .second = item.second.data,
              .copy = item.copy.data,
              .skipped = item.skipped.as<float>(),
              .count = item.master.numel(),
              .first_index = first_index});
    first_index += static_cast<uint64_t>(item.master.numel());
    if (list.full()) {
      start(types, list);
      list = {};
    }
  }
  for (const auto& [types, list] : lists) start(types, list);
}

void adam(std::span<const UpdateItem> items, const AdamParams& hyper, UpdateControl control) {
  with_master_type(items, [&](auto tag) {
    update_all(items, AdamRule<typename decltype(tag)::type>(hyper), hyper, control);
  });
}

void sgd(std::span<const UpdateItem> items, const SgdParams& hyper, UpdateControl control) {
  with_master_type(items, [&](auto tag) {
    update_all(items, SgdRule<typename decltype(tag)::type>(hyper), hyper, control);
  });
}

// ---- master weights in two halves, outside of updates ----

__global__ void __launch_bounds__(threads)
    split_kernel(const float* master, bf16* parameter, int16_t* rest, int64_t count) {
  for (int64_t at = first_item(); at < count; at += item_step()) {
    const formats::SplitF32 halves = formats::split(master[at]);
    parameter[at] = halves.nearest;
    if (rest != nullptr) rest[at] = halves.rest;
  }
}

__global__ void __launch_bounds__(threads)
    join_kernel(const bf16* parameter, const int16_t* rest, float* master, int64_t count) {
  for (int64_t at = first_item(); at < count; at += item_step())
    master[at] = formats::join(parameter[at], rest[at]);
}

void split_master(TensorView master, TensorView parameter, TensorView rest) {
  launch(split_kernel, grid_for(master.numel(), threads), threads, 0, master.as<const float>(),
         parameter.as<bf16>(), rest.present ? rest.as<int16_t>() : nullptr, master.numel());
}

void join_master(TensorView parameter, TensorView rest, TensorView master) {
  launch(join_kernel, grid_for(master.numel(), threads), threads, 0, parameter.as<const bf16>(),
         rest.as<const int16_t>(), master.as<float>(), master.numel());
}

}  // namespace

const OptimizerKernels optimizer_kernels{.adam = adam,
                                         .sgd = sgd,
                                         .gradient_norm = gradient_norm,
                                         .gradient_norm_parts = gradient_norm_parts,
                                         .join_norm_parts = join_norm_parts,
                                         .unscale = unscale,
                                         .clip_factor = clip_factor,
                                         .split_master = split_master,
                                         .join_master = join_master};

}  // namespace binade::backend::cuda
