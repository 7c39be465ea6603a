#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "binade/autograd/op.h"

// The lines of tensor/ops.def as data, and how each language spells them.
namespace binade {

// A parameter after the first, in the words of ops.def.
struct Parameter {
  std::string_view type, name;
  std::string_view otherwise;  // its default; empty if there is none

  // Whether it is a tensor: an input in C, where the others are options.
  constexpr bool is_tensor() const { return type == "const Tensor&"; }
  constexpr bool is_axes() const { return type == "const Axes&"; }  // of a reduction
  constexpr bool has_default() const { return !otherwise.empty(); }
};

enum class OpForm : uint8_t {
  function,  // name(x, ...)
  method,    // also x.name(...)
  in_place,  // also x.name_(...)
};

struct Signature {
  static constexpr size_t max_parameters = 8;

  std::string_view section,
      header;  // where the page on ops has it, and the header that promises it
  std::string_view name;
  std::string_view c_name;        // in C, which has no overloads: a name of its own for each line
  std::optional<CastClass> cast;  // none if it is composed of other ops
  std::string_view no_gradient_reason;
  std::string_view summary;  // what it does, in a line
  OpForm form;
  // Of plain ones: those with a signature. Others are written by hand in each language.
  std::string_view result;
  std::string_view self;
  std::array<Parameter, max_parameters> all_parameters;

  bool is_plain() const { return !result.empty(); }
  // Those after the first.
  std::span<const Parameter> parameters() const;
};

std::span<const Signature> signatures();
// The one of this name in C, which is the op's name but for overloads, or null.
const Signature* find_signature(std::string_view c_name);

// The C++ function: "Tensor elu(const Tensor& x, double alpha = 1);".
std::string declaration(const Signature& op);

// A plain op's entry in the C interface: "elu(x; alpha = 1)".
std::string c_signature(const Signature& op);
// The name of a parameter there: an Order is a flag that says `descending`, or `largest` if that is
// its default.
std::string_view c_name(const Parameter& parameter);

// Whether Python's arguments follow from the description; others are bound by hand.
bool is_plain_in_python(const Signature& op);
// The names of a plain op's first argument and of a parameter in Python, which follows PyTorch.
std::string_view python_self(const Signature& op);
std::string_view python_name(const Signature& op, const Parameter& parameter);
// NumPy's name of it, `axis` or `keepdims`, under which Python takes it, too; else empty.
std::string_view numpy_name(const Parameter& parameter);
// How many parameters Python takes by position: PyTorch wants the options of losses, and the
// factors of ops like addmm, by name.
constexpr size_t python_positional(std::span<const Parameter> parameters) {
  size_t tensors = 0;
  bool is_loss = false;
  for (const Parameter& one : parameters) {
    if (one.is_tensor() && !one.has_default()) ++tensors;
    if (one.type == "Reduce") is_loss = true;
  }
  const bool has_factors = tensors == 2 && parameters.size() > 2 && parameters[2].type == "double";
  return is_loss || has_factors ? tensors : parameters.size();
}
// "elu(input, alpha=1)".
std::string python_signature(const Signature& op);
// The summary with Python's names of the arguments.
std::string python_summary(const Signature& op);

}  // namespace binade
