#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace binade {

// Every op of tensor/ops.def that autocast and autograd know: all but those composed of others.
enum class Op : uint16_t {
// clang-format off
#define BINADE_ENTRY_lower(name) name,
#define BINADE_ENTRY_f32(name) name,
#define BINADE_ENTRY_f32_unless_named(name) name,
#define BINADE_ENTRY_promote(name) name,
#define BINADE_ENTRY_refuse(name) name,
#define BINADE_ENTRY_as_is(name) name,
#define BINADE_ENTRY_composed(name)
#define OP(name, cast, ...) BINADE_ENTRY_##cast(name)
#define ODD(name, cast, ...) BINADE_ENTRY_##cast(name)
#include "binade/tensor/ops.def"
#undef BINADE_ENTRY_lower
#undef BINADE_ENTRY_f32
#undef BINADE_ENTRY_f32_unless_named
#undef BINADE_ENTRY_promote
#undef BINADE_ENTRY_refuse
#undef BINADE_ENTRY_as_is
#undef BINADE_ENTRY_composed
  // clang-format on
};

// How autocast casts an op's floating inputs.
enum class CastClass : uint8_t {
  lower,             // to the autocast type
  f32,               // to f32
  f32_unless_named,  // to f32, unless the caller names a type
  promote,           // to the widest input
  refuse,            // an error that suggests an alternative
  as_is,             // not cast
};

struct OpInfo {
  Op op;
  std::string_view name;
  CastClass cast;
  bool differentiable;
  std::string_view no_gradient_reason;  // empty if differentiable
};

// The table, in the enum's order.
std::span<const OpInfo> all_ops();
const OpInfo& info(Op op);
inline std::string_view name(Op op) { return info(op).name; }
std::string_view name(CastClass cast);

// The op or class named `text`, if there is one.
std::optional<Op> find_op(std::string_view text);
std::optional<CastClass> find_cast_class(std::string_view text);

}  // namespace binade
