#pragma once

#include <span>
#include <string_view>

#include "binade/c/op_options.h"

// Ops by name. A table entry is a signature, which says inputs and options with their defaults, and
// a function of both: names and numbers of arguments are checked against the signature once for
// all.
namespace binade::c {

using Inputs = std::span<const Tensor>;
using Call = Tensor (*)(Inputs x, const Options& o);

struct Entry {
  const char* signature;
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
// The part of op_table() that layers and losses consist of.
std::span<const Entry> layer_op_table();

// Calls of ops whose arguments are tensors alone.
template <Tensor (*op)(const Tensor&)>
Tensor unary(Inputs x, const Options&) {
  return op(x[0]);
}
template <Tensor (*op)(const Tensor&, const Tensor&)>
Tensor binary(Inputs x, const Options&) {
  return op(x[0], x[1]);
}

}  // namespace binade::c
