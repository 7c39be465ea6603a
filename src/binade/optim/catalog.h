#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/optim/option_visitor.h"

// All optimizers, each described once: error texts, forecasts, configurations, the C and the Python
// interface read it here.
namespace binade::optim {

class Optimizer;

enum class Kind : uint8_t { sgd, adam, adamw, rmsprop, adagrad, lion, nadam, adafactor, muon };

// A tensor that an optimizer keeps for each parameter.
struct StateTensor {
  enum class Type : uint8_t {
    wide,     // f32; f64 of f64 parameters
    moments,  // the option of that name; f64 of f64 parameters
  };
  enum class Size : uint8_t {
    elements,  // as many as the parameter has
    lines,     // one for each row or column of a matrix
  };

  std::string_view name;  // in Slot and state_dict()
  Type type = Type::wide;
  Size size = Size::elements;
  bool is_optional = false;  // kept only if an option asks for it, by default none does
};

// What of a parameter ranks may update apart from the rest.
enum class Sharing : uint8_t {
  elements,    // any
  parameters,  // all: each has one owner
  none,        // nothing: not for many ranks
};

// Parameters with options by name.
struct NamedGroup {
  std::vector<Tensor> parameters;
  NamedOptions options;
  MasterOptions master = {};
};

struct Description {
  Kind kind;
  const char* name;         // of the class: "AdamW"
  std::string_view choice;  // in a configuration: "adamw"; empty: not offered there
  std::span<const StateTensor> state;
  Sharing sharing;
  bool runs_on_gpu;   // and can be captured in a graph
  bool has_momentum;  // that set_momentum() sets
  std::vector<std::string> (*options)();
  // Of groups whose other options have their defaults.
  std::unique_ptr<Optimizer> (*make)(const std::vector<NamedGroup>& groups);

  bool takes(std::string_view option) const;
};

std::span<const Description> catalog();
const Description& describe(Kind kind);
// The optimizer whose class is called `name`, or a failure that lists all.
const Description& find_optimizer(std::string_view name);

// Muon for matrices, and AdamW for groups beside them.
std::unique_ptr<Optimizer> make_muon(const std::vector<NamedGroup>& matrices,
                                     const std::vector<NamedGroup>& others);

// "SGD, Adam and AdamW": the names of those for which `has` is true, before the last one `word`.
std::string names_of(bool (*has)(const Description& one), std::string_view word = "and");
// The same of the choices in a configuration.
std::string choices_of(bool (*has)(const Description& one), std::string_view word = "or");

// Bytes of state for an element of a large f32 or 16-bit matrix, with moments of this type and
// otherwise default options.
double state_bytes(Kind kind, DType moments);

}  // namespace binade::optim
