#include "binade/autograd/op.h"

#include <array>

namespace binade {
namespace {

struct Gradient {
  bool differentiable;
  std::string_view reason;
};

constexpr Gradient yes{true, ""};
constexpr Gradient no(std::string_view reason) { return {false, reason}; }

constexpr OpInfo entry(Op op, std::string_view name, CastClass cast, Gradient gradient) {
  return {op, name, cast, gradient.differentiable, gradient.reason};
}

constexpr std::array table = {
#define OP(name, cast, gradient) entry(Op::name, #name, CastClass::cast, gradient),
#include "binade/autograd/ops.def"
#undef OP
};

constexpr std::array<std::string_view, 6> class_names = {"lower",   "f32",    "f32_unless_named",
                                                         "promote", "refuse", "as_is"};

}  // namespace

std::span<const OpInfo> all_ops() { return table; }

const OpInfo& info(Op op) { return table[static_cast<size_t>(op)]; }

std::string_view name(CastClass cast) { return class_names[static_cast<size_t>(cast)]; }

std::optional<Op> find_op(std::string_view text) {
  for (const OpInfo& entry : table) {
    if (entry.name == text) return entry.op;
  }
  return std::nullopt;
}

std::optional<CastClass> find_cast_class(std::string_view text) {
  for (size_t i = 0; i < class_names.size(); ++i) {
    if (class_names[i] == text) return static_cast<CastClass>(i);
  }
  return std::nullopt;
}

}  // namespace binade
