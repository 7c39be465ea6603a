#include "binade/c/op_table.h"

#include "binade/ops/composed.h"
#include "binade/ops/create/categorical.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/count.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/shape/pad.h"
#include "binade/ops/shape/shape.h"

namespace binade::c {
namespace {

PadMode pad_mode_of(const Options& o) {
  const std::string text = o.text("mode", "constant");
  if (text == "constant") return PadMode::constant;
  if (text == "reflect") return PadMode::reflect;
  if (text == "replicate") return PadMode::replicate;
  fail("bnd_op",
       {.argument = "option mode", .expected = "constant, reflect or replicate", .found = text});
}

Order order_of(const Options& o) {
  return o.integer("largest", 1) != 0 ? Order::descending : Order::ascending;
}

// Ops whose arguments have no plain signature, and shorter forms of others.
const Entry by_hand[] = {
    {"add_scalar(x; value)",
     [](Inputs x, const Options& o) { return add(x[0], o.number("value")); }},
    {"mul_scalar(x; value)",
     [](Inputs x, const Options& o) { return mul(x[0], o.number("value")); }},
    {"pow_scalar(x; exponent)",
     [](Inputs x, const Options& o) { return pow(x[0], o.number("exponent")); }},
    {"einsum(...; equation)",
     [](Inputs x, const Options& o) { return einsum(o.text("equation"), x); }},
    {"cat(...; axis)", [](Inputs x, const Options& o) { return cat(x, o.integer("axis")); }},
    {"stack(...; axis)", [](Inputs x, const Options& o) { return stack(x, o.integer("axis")); }},
    {"hstack(...)", [](Inputs x, const Options&) { return hstack(x); }},
    {"vstack(...)", [](Inputs x, const Options&) { return vstack(x); }},
    {"unique(x)", [](Inputs x, const Options&) { return unique(x[0]).values; }},
    {"unique_inverse(x)",
     [](Inputs x, const Options&) { return unique(x[0], {.inverse = true}).inverse; }},
    {"unique_counts(x)",
     [](Inputs x, const Options&) { return unique(x[0], {.counts = true}).counts; }},
    {"unique_consecutive(x)",
     [](Inputs x, const Options&) { return unique_consecutive(x[0]).values; }},
    {"pad(x; padding, mode = constant, value = 0)",
     [](Inputs x, const Options& o) {
       return pad(x[0], o.list("padding"), {pad_mode_of(o), o.number("value", 0)});
     }},
    {"topk_index(x; k, axis = -1, largest = 1)",
     [](Inputs x, const Options& o) {
       return topk(x[0], o.integer("k"), o.integer("axis", -1), order_of(o)).index;
     }},
    {"multinomial(weights; samples, replacement = 0)",
     [](Inputs x, const Options& o) {
       return multinomial(x[0], o.integer("samples"), {.replacement = o.flag("replacement")});
     }},
};

}  // namespace

std::span<const Entry> op_table() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> entries = plain_op_table();
    entries.insert(entries.end(), std::begin(by_hand), std::end(by_hand));
    const std::vector<Entry> layers = layer_op_table();
    entries.insert(entries.end(), layers.begin(), layers.end());
    return entries;
  }();
  return all;
}

}  // namespace binade::c
