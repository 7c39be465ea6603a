#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace binade {

// Every public op, generated from ops.def.
enum class Op : uint16_t {
#define OP(name, cast, gradient) name,
#include "binade/autograd/ops.def"
#undef OP
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
