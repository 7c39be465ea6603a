#include "binade/backend/optimizer.h"

#include <vector>

#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/step/adam_8bit.h"
#include "binade/backend/cuda/step/multi_tensor_gradients.h"
#include "binade/backend/cuda/step/update_rules.cuh"
#include "binade/backend/cuda/step/update_weights.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;
constexpr int in_flight = 2;  // packs of every tensor that a thread loads at a time
constexpr int64_t chunk = int64_t{threads} * update_pack * in_flight * 8;

// ---- one update of many tensors that share their types ----

struct UpdateTensors : UpdateWeights {
  void *first, *second;

  UpdateTensors() = default;
  UpdateTensors(const PlacedItem& placed)  // NOLINT: implicit, so that lists take items
      : UpdateWeights(placed), first(placed.item->first.data), second(placed.item->second.data) {}
};

struct UpdateTypes : WeightTypes {
  DType first, second;
  bool packed;

  explicit UpdateTypes(const UpdateItem& item)
      : WeightTypes(item),
        first(item.first.dtype),
        second(item.second.dtype),
        packed(has_packed_weights(item) && is_packed(item.first) && is_packed(item.second)) {}
  auto operator<=>(const UpdateTypes&) const = default;
};

constexpr int capacity = 48;  // as many as fit into a kernel's parameters
using UpdateList = TensorList<UpdateTensors, capacity, chunk>;

template <class Rule>
struct Update {
  UpdateList list;
  UpdateTypes types;
  Rule rule;
  DeviceControl control;
  random::Key key;  // of a 16-bit master's stochastic rounding
};

template <class Rule, int N>
struct Elements {
  using C = typename Rule::type;
  WeightElements<C, N> weights;
  Fetched<C, N> first, second;

  __device__ void read(const Update<Rule>& u, const UpdateTensors& t, int64_t at) {
    weights.read(t, u.types, at);
    if (t.first != nullptr) first = fetch<C, N>({t.first, u.types.first}, at);
    if (t.second != nullptr) second = fetch<C, N>({t.second, u.types.second}, at);
  }

  template <bool Stochastic>
  __device__ void update(const Update<Rule>& u, const Rule& rule, const UpdateTensors& t,
                         int64_t at) const {
    C g[N], p[N], m[N] = {}, v[N] = {};
    weights.widen_to(g, p, u.types);
    if (t.first != nullptr) widen(first, u.types.first, m);
    if (t.second != nullptr) widen(second, u.types.second, v);
    rule.update(g, p, m, v, t.first != nullptr);
    if (t.first != nullptr) store({t.first, u.types.first}, at, m);
    if (t.second != nullptr) store({t.second, u.types.second}, at, v);
    weights.template write<Stochastic>(p, t, u.types, u.key, at);
  }
};

// Three blocks at a time on a multiprocessor have enough loads in flight.
template <class Rule, bool Stochastic>
__global__ void __launch_bounds__(threads, 3)
    update_kernel(const __grid_constant__ Update<Rule> u) {
  static_assert(sizeof(Update<Rule>) <= parameter_bytes);
  if (u.control.skips()) return;
  const auto [item, begin, end] = u.list.part(blockIdx.x);
  const UpdateTensors& tensors = u.list.items[item];
  const Rule rule = u.control.rule_for(tensors, u.rule);
  int64_t singles = begin;
  if constexpr (std::is_same_v<typename Rule::type, float>) {
    if (u.types.packed) {
      singles = end - (end - begin) % update_pack;
      constexpr int64_t step = int64_t{threads} * update_pack;
      for (int64_t at = begin + threadIdx.x * update_pack; at < singles; at += in_flight * step) {
        Elements<Rule, update_pack> elements[in_flight];
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

template <class Rule, class Params>
void update_all(std::span<const PlacedItem> items, const Rule& rule, const Params& hyper,
                const UpdateControl& control) {
  for (const PlacedItem& placed : items) {
    const UpdateItem& item = *placed.item;
    require_compute(Rule::name,
                    {&item.master, &item.gradient, &item.first, &item.second, &item.copy});
  }
  for_each_list<UpdateTypes, UpdateList>(
      items, [&](const UpdateTypes& types, const UpdateList& list) {
        const Update<Rule> update{.list = list,
                                  .types = types,
                                  .rule = rule,
                                  .control = DeviceControl(control),
                                  .key = rounding_key(hyper)};
        auto* kernel = update_kernel<Rule, false>;
        if constexpr (std::is_same_v<typename Rule::type, float>) {
          if (rounds_randomly(hyper, types)) kernel = update_kernel<Rule, true>;
        }
        launch(kernel, list.blocks(), threads, 0, update);
      });
}

// The items that are wanted, each with its place among all.
template <class F>
std::vector<PlacedItem> placed(std::span<const UpdateItem> items, F wanted) {
  std::vector<PlacedItem> result;
  uint64_t first_index = 0;
  for (const UpdateItem& item : items) {
    if (wanted(item)) result.push_back({&item, first_index});
    first_index += static_cast<uint64_t>(item.master.numel());
  }
  return result;
}

void adam(std::span<const UpdateItem> items, const AdamParams& hyper, UpdateControl control) {
  const auto is_8bit = [](const UpdateItem& item) { return item.first.dtype == DType::u8; };
  const auto plain = placed(items, [&](const UpdateItem& item) { return !is_8bit(item); });
  with_master_type(items, [&](auto tag) {
    update_all(plain, AdamRule<typename decltype(tag)::type>(hyper), hyper, control);
  });
  adam_8bit(placed(items, is_8bit), hyper, control);
}

// By the rule for master weights of the type at hand.
template <template <class> class Rule, class Params>
void update_plain(std::span<const UpdateItem> items, const Params& hyper,
                  const UpdateControl& control) {
  const auto all = placed(items, [](const UpdateItem&) { return true; });
  with_master_type(items, [&](auto tag) {
    update_all(all, Rule<typename decltype(tag)::type>(hyper), hyper, control);
  });
}

void update(std::span<const UpdateItem> items, const UpdateRule& rule, UpdateControl control) {
  if (const auto* hyper = std::get_if<AdamParams>(&rule.params))
    return adam(items, *hyper, control);
  if (const auto* hyper = std::get_if<SgdParams>(&rule.params))
    return update_plain<SgdRule>(items, *hyper, control);
  if (const auto* hyper = std::get_if<MuonMomentumParams>(&rule.params))
    return update_plain<MuonMomentumRule>(items, *hyper, control);
  if (const auto* hyper = std::get_if<MuonParams>(&rule.params))
    return update_plain<MuonRule>(items, *hyper, control);
  fail("optimizer", {.argument = "parameters",
                     .expected = "the CPU, for a rule without a kernel for GPUs",
                     .found = "a GPU"});
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

const OptimizerKernels optimizer_kernels{.update = update,
                                         .gradient_norm = gradient_norm,
                                         .gradient_norm_parts = gradient_norm_parts,
                                         .join_norm_parts = join_norm_parts,
                                         .unscale = unscale,
                                         .clip_factor = clip_factor,
                                         .split_master = split_master,
                                         .join_master = join_master};

}  // namespace binade::backend::cuda
