#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/c/op_options.h"

// Ops by name. A table entry is a signature, which says inputs and options with their defaults, and
// a function of both: names and numbers of arguments are checked against the signature once for
// all. Ops with a plain signature come from tensor/ops.def, the others are written by hand.
namespace binade::c {

using Inputs = std::span<const Tensor>;
using Call = Tensor (*)(Inputs x, const Options& o);

struct Entry {
  std::string signature;
  Call call;

  std::string_view name() const {
    const std::string_view text(signature);
    return text.substr(0, text.find('('));
  }
  // Inputs between '(' and ';' or ')'; those that end in '?' may be absent, and "..." stands for
  // any number.
  std::string_view inputs() const {
    const std::string_view text(signature);
    const size_t begin = text.find('(') + 1;
    return text.substr(begin, text.find_first_of(";)") - begin);
  }
};

std::span<const Entry> op_table();
// Its parts: the plain ops, and by hand those that layers and losses consist of.
std::vector<Entry> plain_op_table();
std::vector<Entry> layer_op_table();

}  // namespace binade::c
