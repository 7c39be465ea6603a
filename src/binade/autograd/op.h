#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace binade {

// Every public op, from the one table in ops.def.
enum class Op : uint16_t {
#define OP(name, cast, gradient) name,
#include "binade/autograd/ops.def"
#undef OP
};

// What autocast does with an op's floating inputs.
enum class CastClass : uint8_t {
  lower,             // to the autocast type
  f32,               // to f32
  f32_unless_named,  // to f32 unless the caller names a type
  promote,           // to the widest input
  refuse,            // an error that says what to use instead
  as_is,             // left alone
};

struct OpInfo {
  Op op;
  std::string_view name;
  CastClass cast;
  bool differentiable;
  std::string_view no_gradient_reason;  // empty where differentiable
};

// The table, in the enum's order.
std::span<const OpInfo> all_ops();
const OpInfo& info(Op op);
inline std::string_view name(Op op) { return info(op).name; }
std::string_view name(CastClass cast);

// The op or class called `text`, if there is one.
std::optional<Op> find_op(std::string_view text);
std::optional<CastClass> find_cast_class(std::string_view text);

}  // namespace binade
