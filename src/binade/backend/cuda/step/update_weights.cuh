#pragma once

#include <map>
#include <span>

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/multi_tensor.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/step/placed_item.h"
#include "binade/backend/update_rules.h"
#include "binade/formats/split_f32.h"

// What the kernels of optimizer updates share: weights, gradients and what a step decides on the
// device.
namespace binade::backend::cuda {

inline constexpr int update_pack = 4;  // elements; 16 bytes of f32

// Of one parameter: see UpdateItem.
struct UpdateWeights {
  void *master, *rest, *gradient, *copy;
  const float* skipped;
  int64_t count;
  uint64_t first_index;  // of its elements among those of all parameters

  UpdateWeights() = default;
  explicit UpdateWeights(const PlacedItem& placed)
      : master(placed.item->master.data),
        rest(placed.item->rest.data),
        gradient(placed.item->gradient.data),
        copy(placed.item->copy.data),
        skipped(placed.item->skipped.as<float>()),
        count(placed.item->master.numel()),
        first_index(placed.first_index) {}
};

struct WeightTypes {
  DType master, gradient, copy;
  bool has_rest, has_copy;

  explicit WeightTypes(const UpdateItem& item)
      : master(item.master.dtype),
        gradient(item.gradient.dtype),
        copy(item.copy.dtype),
        has_rest(item.rest.present),
        has_copy(item.copy.present) {}
  auto operator<=>(const WeightTypes&) const = default;
};

// UpdateControl on the device.
struct DeviceControl {
  const float *factor, *skip;
  const double* hyper;
  const float* skipped_steps;

  explicit DeviceControl(const UpdateControl& control)
      : factor(optional(control.gradient_factor)),
        skip(optional(control.skip)),
        hyper(control.hyper.present ? control.hyper.as<double>() : nullptr),
        skipped_steps(optional(control.skipped_steps)) {}

  __device__ bool skips() const { return skip != nullptr && *skip != 0; }

  // The rule of this step for a parameter, given the host's.
  template <class Rule>
  __device__ Rule rule_for(const UpdateWeights& t, Rule rule) const {
    using C = typename Rule::type;
    if (hyper != nullptr) rule.set(hyper);
    if (skipped_steps != nullptr && *skipped_steps > rule.after_skips.known)
      rule.set_rate(learning_rate(rule.lr, rule.after_skips, *skipped_steps));
    if (factor != nullptr) rule.gradient_factor = static_cast<C>(*factor);
    if (t.skipped != nullptr && *t.skipped > 0) rule.without(static_cast<int64_t>(*t.skipped));
    return rule;
  }

 private:
  static const float* optional(const TensorView& view) {
    return view.present ? view.as<float>() : nullptr;
  }
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

// N elements of a parameter and its gradient, as stored in memory.
template <class C, int N>
class WeightElements {
 public:
  __device__ void read(const UpdateWeights& t, const WeightTypes& types, int64_t at) {
    gradient_ = fetch<C, N>({t.gradient, types.gradient}, at);
    master_ = fetch<C, N>({t.master, types.master}, at);
    if (types.has_rest) rests_ = load_pack<int16_t, N>(static_cast<const int16_t*>(t.rest) + at);
  }

  __device__ void widen_to(C (&g)[N], C (&p)[N], const WeightTypes& types) const {
    widen(gradient_, types.gradient, g);
    widen(master_, types.master, p);
    if (types.has_rest) join_rests(p);
  }

  // p: the new master weights. `key`: of stochastic rounding.
  template <bool Stochastic>
  __device__ static void write(C (&p)[N], const UpdateWeights& t, const WeightTypes& types,
                               random::Key key, int64_t at) {
    if (types.has_copy) store({t.copy, types.copy}, at, p);
    if (types.has_rest) {
      split_rests(t, at, p);
    } else if constexpr (Stochastic) {
      uint32_t bits[N];
      draw(key, t.first_index + static_cast<uint64_t>(at), bits);
      round_master(types.master, bits, p);
    }
    store({t.master, types.master}, at, p);
  }

 private:
  // Of split master weights (formats/split_f32.h).
  using Rests = Pack<int16_t, N>;

  // p is of bf16 values. Only f32 master weights are split.
  __device__ void join_rests(C (&p)[N]) const {
    if constexpr (std::is_same_v<C, float>) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        p[i] = formats::join(bf16::from_bits(static_cast<uint16_t>(__float_as_uint(p[i]) >> 16)),
                             rests_[i]);
    }
  }

  // Stores the rests and leaves the bf16 values in p.
  __device__ static void split_rests(const UpdateWeights& t, int64_t at, C (&p)[N]) {
    if constexpr (std::is_same_v<C, float>) {
      Rests kept;
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
  __device__ static void round_master(DType master, const uint32_t (&bits)[N], C (&p)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (master == DType::bf16) p[i] = round_randomly<formats::spec::bf16>(p[i], bits[i]);
      if (master == DType::f16) p[i] = round_randomly<formats::spec::f16>(p[i], bits[i]);
    }
  }

  Fetched<C, N> gradient_, master_;
  Rests rests_;
};

// Whether a tensor, if there is one, can be read and written in packs.
inline bool is_packed(const TensorView& view) {
  if (!view.present) return true;
  const auto address = reinterpret_cast<uintptr_t>(view.data);
  return view.dtype != DType::f64 && address % (update_pack * size_of(view.dtype)) == 0;
}

// The same of a parameter and its gradient.
inline bool has_packed_weights(const UpdateItem& item) {
  return is_packed(item.master) && is_packed(item.gradient) && is_packed(item.copy) &&
         (!item.rest.present || packs_fit<int16_t, update_pack>(item.rest.data));
}

// Calls start(types, list) with lists of items that have the same Types.
template <class Types, class List, class F>
void for_each_list(std::span<const PlacedItem> items, F start) {
  std::map<Types, List> lists;
  for (const PlacedItem& placed : items) {
    const Types types(*placed.item);
    List& list = lists[types];
    list.add({placed});
    if (!list.full()) continue;
    start(types, list);
    list = {};
  }
  for (const auto& [types, list] : lists) start(types, list);
}

// Whether masters of such types are rounded stochastically.
template <class Params>
bool rounds_randomly(const Params& hyper, const WeightTypes& types) {
  return hyper.stochastic_rounding && size_of(types.master) == 2;
}

}  // namespace binade::backend::cuda
