#include "binade/amp/autocast.h"

#include <span>
#include <unordered_map>

#include "binade/amp/trace.h"
#include "binade/autograd/module_path.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/base/execution.h"
#include "binade/tensor/memory_format.h"

namespace binade::amp {
namespace {

// A low-precision copy of an f32 leaf. It holds the leaf's storage so that no other storage gets
// the same address.
struct CachedCast {
  std::shared_ptr<Storage> source;
  uint64_t version = 0;
  Strides strides;  // two leaves may view one storage differently
  Tensor copy;
};

struct CacheKey {
  const Storage* source;
  int64_t offset;
  DType dtype;
  bool operator==(const CacheKey&) const = default;
};

struct CacheHash {
  size_t operator()(const CacheKey& key) const {
    return std::hash<const void*>()(key.source) * 31 + static_cast<size_t>(key.offset) * 7 +
           static_cast<size_t>(key.dtype);
  }
};

// A forward is repeated in its precision.
constinit execution::Slot<AutocastState> thread_autocast(execution::Belongs::to_work);

struct CastCache {
  int guards = 0;  // that live on the thread; the outermost ends the casts
  std::unordered_map<CacheKey, CachedCast, CacheHash> casts;
};

// Memory of the thread, which no other may read without locks.
CastCache& cast_cache() {
  thread_local CastCache cache;
  return cache;
}

const AutocastState& checked(const AutocastState& state) {
  if (state.enabled && state.dtype != DType::f16 && state.dtype != DType::bf16) {
    fail("autocast",
         {.argument = "dtype", .expected = "f16 or bf16", .found = std::string(name(state.dtype))});
  }
  return state;
}

// The state that a guard opens inside the current one.
AutocastState nested(DType dtype, const AutocastOptions& options) {
  AutocastState state = autocast_state();
  state.enabled = options.enabled;
  state.dtype = dtype;
  if (options.policy != nullptr) state.policy = options.policy;
  return state;
}

bool eligible(const Tensor& tensor) {
  return tensor.defined() && is_compute(tensor.dtype()) && tensor.dtype() != DType::f64;
}

DType widest(std::span<const Tensor> inputs) {
  std::optional<DType> type;
  for (const Tensor& input : inputs) {
    if (eligible(input)) type = type ? promote(*type, input.dtype()) : input.dtype();
  }
  return type.value_or(DType::f32);
}

[[noreturn]] void refuse(std::string_view op, DType autocast) {
  const bool takes_probabilities = op == name(Op::binary_cross_entropy);
  fail(op, {.argument = "autocast",
            .expected = "f32 outside of autocast",
            .found = "autocast to " + std::string(name(autocast)),
            .hint = takes_probabilities ? "probabilities near 0 and 1 are lost in 16 bits: use "
                                          "bce_with_logits on the logits"
                                        : "the policy refuses this op: call it inside a guard with "
                                          "enabled = false"});
}

Tensor converted(const Tensor& x, DType target) {
  Tensor copy = empty(x.shape(), target, x.device(), memory_format(x));
  backend::of(x).elementwise.copy(x, copy);
  trace_cast(x, copy);
  return copy;
}

}  // namespace

const AutocastState& autocast_state() { return *thread_autocast; }

AutocastState disabled_autocast() {
  AutocastState state = autocast_state();
  state.enabled = false;
  return state;
}

MatmulPrecision matmul_precision() { return autocast_state().matmul_precision; }

Autocast::Autocast(DType dtype, const AutocastOptions& options)
    : Autocast(nested(dtype, options)) {}

Autocast::Autocast(Device device, const AutocastOptions& options)
    : Autocast(backend::capabilities(device).autocast_dtype, options) {}

Autocast::Autocast(const AutocastState& state) : state_(*thread_autocast, checked(state)) {
  ++cast_cache().guards;
}

Autocast::~Autocast() {
  CastCache& cache = cast_cache();
  if (--cache.guards == 0) cache.casts.clear();
}

MatmulPrecisionGuard::MatmulPrecisionGuard(MatmulPrecision precision)
    : precision_(thread_autocast->matmul_precision, precision) {}

CastClass class_of(Op op) {
  const auto& policy = autocast_state().policy;
  return policy == nullptr ? info(op).cast : policy->class_of(op, autograd::module_path());
}

std::optional<DType> input_type(Op op, std::span<const Tensor> inputs, bool named) {
  const AutocastState& state = autocast_state();
  if (!state.enabled) return std::nullopt;
  return input_type(class_of(op), name(op), inputs, named);
}

std::optional<DType> input_type(CastClass cast, std::string_view op, std::span<const Tensor> inputs,
                                bool named) {
  const AutocastState& state = autocast_state();
  if (!state.enabled) return std::nullopt;
  switch (cast) {
    case CastClass::lower:
      return state.dtype;
    case CastClass::f32:
      return DType::f32;
    case CastClass::f32_unless_named:
      return named ? std::nullopt : std::optional(DType::f32);
    case CastClass::promote:
      return widest(inputs);
    case CastClass::as_is:
      return std::nullopt;
    case CastClass::refuse:
      break;
  }
  refuse(op, state.dtype);
}

Tensor cast_input(const Tensor& x, std::optional<DType> target) {
  if (!target || !eligible(x) || x.dtype() == *target) return x;
  const bool cacheable = x.dtype() == DType::f32 && x.is_leaf() && x.requires_grad() &&
                         *target == autocast_state().dtype && cast_cache().guards > 0;
  if (!cacheable) return converted(x, *target);
  CachedCast& entry = cast_cache().casts[{x.storage().get(), x.offset(), *target}];
  const bool current = entry.copy.defined() && entry.source == x.storage() &&
                       entry.version == x.version() && entry.copy.shape() == x.shape() &&
                       entry.strides == x.strides();
  if (!current) entry = {x.storage(), x.version(), x.strides(), converted(x, *target)};
  return entry.copy;
}

int64_t cast_cache_bytes() {
  int64_t bytes = 0;
  for (const auto& [key, entry] : cast_cache().casts) bytes += entry.copy.bytes();
  return bytes;
}

}  // namespace binade::amp
