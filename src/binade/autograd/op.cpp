#include "binade/autograd/op.h"

#include <array>
#include <vector>

#include "binade/autograd/signature.h"

namespace binade {
namespace {

// The described ops that are not composed, which the enum holds in the same order.
std::vector<OpInfo> make_table() {
  std::vector<OpInfo> table;
  for (const Signature& op : signatures()) {
    if (!op.cast) continue;
    table.push_back({static_cast<Op>(table.size()), op.name, *op.cast,
                     op.no_gradient_reason.empty(), op.no_gradient_reason});
  }
  return table;
}

const std::vector<OpInfo>& op_infos() {
  static const std::vector<OpInfo> table = make_table();
  return table;
}

constexpr std::array<std::string_view, 6> class_names = {"lower",   "f32",    "f32_unless_named",
                                                         "promote", "refuse", "as_is"};

}  // namespace

std::span<const OpInfo> all_ops() { return op_infos(); }

const OpInfo& info(Op op) { return op_infos()[static_cast<size_t>(op)]; }

std::string_view name(CastClass cast) { return class_names[static_cast<size_t>(cast)]; }

std::optional<Op> find_op(std::string_view text) {
  for (const OpInfo& entry : op_infos()) {
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
