#include "binade/backend/cuda/step/adam_8bit.h"

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/magnitude.cuh"
#include "binade/backend/cuda/common/rounded_division.cuh"
#include "binade/backend/cuda/step/update_rules.cuh"
#include "binade/backend/cuda/step/update_weights.cuh"
#include "binade/formats/dynamic_table.h"

// A warp updates the elements of a block that shares its scales (formats/dynamic_code.h), so that
// it has all new moments at hand when it looks for the largest. The code's tables are in shared
// memory, and thread blocks walk over many chunks to load them seldom.
namespace binade::backend::cuda {
namespace {

using formats::DynamicSign;
using formats::DynamicTable;
using Rule = AdamRule<float>;

constexpr int threads = 256, warps = threads / warp_size;
constexpr int blocks_each = 2;  // of threads, on a multiprocessor at a time
constexpr int per_thread = formats::dynamic_block / warp_size;
constexpr int64_t chunk = warps * formats::dynamic_block * 16;

struct Tensors : UpdateWeights {
  uint8_t *first, *second;
  float *first_scale, *second_scale;

  Tensors() = default;
  Tensors(const PlacedItem& placed)  // NOLINT: implicit, so that lists take items
      : UpdateWeights(placed),
        first(placed.item->first.as<uint8_t>()),
        second(placed.item->second.as<uint8_t>()),
        first_scale(placed.item->first_scale.as<float>()),
        second_scale(placed.item->second_scale.as<float>()) {}
};

struct Types : WeightTypes {
  bool packed;

  explicit Types(const UpdateItem& item)
      : WeightTypes(item),
        packed(has_packed_weights(item) && is_packed(item.first) && is_packed(item.second) &&
               item.master.numel() % update_pack == 0) {}
  auto operator<=>(const Types&) const = default;
};

constexpr int capacity = 40;  // as many as fit into a kernel's parameters
using List = TensorList<Tensors, capacity, chunk>;

struct Update {
  List list;
  Types types;
  Rule rule;
  DeviceControl control;
  random::Key key;  // of a 16-bit master's stochastic rounding
};

__device__ const DynamicTable either_table = formats::dynamic_table<DynamicSign::either>;
__device__ const DynamicTable positive_table = formats::dynamic_table<DynamicSign::positive>;

// ---- the code of moments ----

// The scale of a warp's values; their codes are zero if it is not above zero and finite.
template <int Packs, int N>
__device__ float scale_of(const float (&values)[Packs][N]) {
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < Packs * N; ++i) most = max(most, magnitude_bits(values[i / N][i % N]));
  const float largest = __uint_as_float(reduce_warp(most, Max{}));
  return isfinite(largest) ? largest : __uint_as_float(0x7fc00000);
}

// Codes of values: those of formats::encode_dynamic.
template <DynamicSign Sign, int Packs, int N>
__device__ void encode(const DynamicTable& table, const float (&values)[Packs][N], float scale,
                       Pack<uint8_t, N> (&codes)[Packs]) {
  constexpr uint32_t zero = formats::dynamic_table<Sign>.zero;
  // A power of two that moves the scale to where quotients are correctly rounded.
  const float factor = scale < 0x1p-76f ? 0x1p+96f : scale > 0x1p+100f ? 0x1p-64f : 1;
  const Divisor divisor = Divisor::of(scale * factor);
#pragma unroll
  for (int i = 0; i < Packs * N; ++i) {
    const float value = values[i / N][i % N];
    const uint32_t nearest =
        formats::nearest_number(table.cells, divisor.quotient(fabsf(value) * factor));
    codes[i / N][i % N] = formats::dynamic_code<Sign>(value, nearest, zero);
  }
}

// ---- the update of a block ----

// Its elements: packs of N a thread, `per_thread` elements in all.
template <int N>
class Block {
 public:
  static constexpr int packs = per_thread / N;

  __device__ Block(const Tensors& tensors, const Types& types, int64_t begin, int64_t end)
      : t_(tensors), types_(types), begin_(begin), end_(end) {}

  __device__ void read() {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (at(k) >= end_) continue;
      weights_[k].read(t_, types_, at(k));
      first_[k] = load_pack<uint8_t, N>(t_.first + at(k));
      second_[k] = load_pack<uint8_t, N>(t_.second + at(k));
    }
    first_scale_ = t_.first_scale[begin_ / formats::dynamic_block];
    second_scale_ = t_.second_scale[begin_ / formats::dynamic_block];
  }

  template <bool Stochastic>
  __device__ void update(const AdamStep<float>& step, const DynamicTable& either,
                         const DynamicTable& positive, random::Key key) {
    float m[packs][N], v[packs][N];
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      float g[N], p[N];
      weights_[k].widen_to(g, p, types_);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        m[k][i] = either.numbers[first_[k][i]] * first_scale_;
        v[k][i] = positive.numbers[second_[k][i]] * second_scale_;
        adam_moments(step, g[i], p[i], m[k][i], v[k][i]);
      }
      adam_weights(step, p, m[k], v[k]);
      if (at(k) < end_) {
        weights_[k].template write<Stochastic>(p, t_, types_, key, at(k));
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i) m[k][i] = v[k][i] = 0;
      }
    }
    store<DynamicSign::either>(either, m, t_.first, t_.first_scale);
    store<DynamicSign::positive>(positive, v, t_.second, t_.second_scale);
  }

 private:
  __device__ int64_t at(int k) const {
    return begin_ + (k * warp_size + static_cast<int>(threadIdx.x) % warp_size) * N;
  }

  template <DynamicSign Sign>
  __device__ void store(const DynamicTable& table, const float (&values)[packs][N], uint8_t* to,
                        float* scales) const {
    const float scale = scale_of(values);
    Pack<uint8_t, N> codes[packs];
    if (scale > 0) {
      encode<Sign>(table, values, scale, codes);
    } else {
#pragma unroll
      for (int i = 0; i < per_thread; ++i)
        codes[i / N][i % N] = static_cast<uint8_t>(formats::dynamic_table<Sign>.zero);
    }
#pragma unroll
    for (int k = 0; k < packs; ++k)
      if (at(k) < end_) store_pack(to + at(k), codes[k]);
    if (threadIdx.x % warp_size == 0) scales[begin_ / formats::dynamic_block] = scale;
  }

  const Tensors& t_;
  const Types& types_;
  const int64_t begin_, end_;
  WeightElements<float, N> weights_[packs];
  Pack<uint8_t, N> first_[packs], second_[packs];
  float first_scale_, second_scale_;
};

// ---- the kernel ----

__device__ void load_table(const DynamicTable& from, DynamicTable& to) {
  constexpr int words = sizeof(DynamicTable) / 4;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += threads)
    reinterpret_cast<uint32_t*>(&to)[i] = reinterpret_cast<const uint32_t*>(&from)[i];
}

template <int N, bool Stochastic>
__global__ void __launch_bounds__(threads, N == 1 ? 1 : blocks_each)
    adam_8bit_kernel(const __grid_constant__ Update u) {
  static_assert(sizeof(Update) <= parameter_bytes);
  __shared__ DynamicTable either, positive;
  if (u.control.skips()) return;
  load_table(either_table, either);
  load_table(positive_table, positive);
  __syncthreads();
  const unsigned chunks = u.list.blocks();
  for (unsigned index = blockIdx.x; index < chunks; index += gridDim.x) {
    const auto [item, begin, end] = u.list.part(index);
    const Tensors& tensors = u.list.items[item];
    const AdamStep<float> adam_step = u.control.rule_for(tensors, u.rule);
    constexpr int64_t step = warps * formats::dynamic_block;
    for (int64_t at = begin + threadIdx.x / warp_size * formats::dynamic_block; at < end;
         at += step) {
      Block<N> block(tensors, u.types, at, min(at + formats::dynamic_block, end));
      block.read();
      block.template update<Stochastic>(adam_step, either, positive, u.key);
    }
  }
}

}  // namespace

void adam_8bit(std::span<const PlacedItem> items, const AdamParams& hyper,
               const UpdateControl& control) {
  for (const PlacedItem& placed : items)
    require_compute("adam", {&placed.item->master, &placed.item->gradient, &placed.item->copy});
  for_each_list<Types, List>(items, [&](const Types& types, const List& list) {
    const Update update{.list = list,
                        .types = types,
                        .rule = Rule(hyper),
                        .control = DeviceControl(control),
                        .key = rounding_key(hyper)};
    constexpr int n = update_pack;
    const bool stochastic = rounds_randomly(hyper, types);
    auto* kernel = stochastic ? &adam_8bit_kernel<1, true> : &adam_8bit_kernel<1, false>;
    if (types.packed)
      kernel = stochastic ? &adam_8bit_kernel<n, true> : &adam_8bit_kernel<n, false>;
    launch(kernel, grid_for(list.blocks(), 1, blocks_each), threads, 0, update);
  });
}

}  // namespace binade::backend::cuda
