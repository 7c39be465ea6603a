#include "binade/autograd/signature.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>
#include <vector>

#include "binade/tensor/op_list.h"

namespace binade {
namespace {

// Adds the lines of ops.def one after the other.
class Lines {
 public:
  void begin(std::string_view section, std::string_view header) {
    section_ = section;
    header_ = header;
  }
  void add(Signature line) {
    line.section = section_;
    line.header = header_;
    lines_.push_back(line);
  }
  std::vector<Signature> take() { return std::move(lines_); }

 private:
  std::string_view section_, header_;
  std::vector<Signature> lines_;
};

std::vector<Signature> read_lines() {
  // What stands in ops.def for a class, its absence, and a gradient.
  using enum CastClass;
  constexpr std::nullopt_t composed = std::nullopt;
  constexpr std::string_view yes = "";
  const auto no = [](std::string_view reason) { return reason; };
  Lines lines;
// clang-format off
#define BINADE_PARAMETER(type, name, ...) Parameter{#type, #name, #__VA_ARGS__}
#define SECTION(title, header) lines.begin(title, header);
#define OVERLOAD(name, c_name, cast, gradient, form, summary, result, self, ...)            \
  lines.add({{}, {}, #name, #c_name, cast, gradient, summary, OpForm::form, #result, #self, \
             {BINADE_LIST(BINADE_PARAMETER, __VA_ARGS__)}});
#define OP(name, ...) OVERLOAD(name, name, __VA_ARGS__)
#define ODD(name, cast, gradient, summary) \
  lines.add({{}, {}, #name, #name, cast, gradient, summary, OpForm::function, {}, {}, {}});
#include "binade/tensor/ops.def"
#undef BINADE_PARAMETER
  // clang-format on
  return lines.take();
}

// Whether a default is that of an absent value: {}.
bool is_absent(std::string_view otherwise) { return otherwise == "{}"; }

// "mean" of "Reduce::mean".
std::string_view enumerator(std::string_view value) {
  const size_t colons = value.rfind(':');
  return colons == std::string_view::npos ? value : value.substr(colons + 1);
}

// What Python calls parameters of a name. `op` and `type` narrow it; the first that fits counts.
struct Spelling {
  std::string_view op, type, name, python;
};
constexpr Spelling spellings[] = {
    {"addcmul", "", "b", "tensor1"},
    {"addcmul", "", "c", "tensor2"},
    {"addcdiv", "", "b", "tensor1"},
    {"addcdiv", "", "c", "tensor2"},
    {"addmm", "", "a", "mat1"},
    {"addmm", "", "b", "mat2"},
    {"baddbmm", "", "a", "batch1"},
    {"baddbmm", "", "b", "batch2"},
    {"bincount", "", "minimum", "minlength"},
    {"bilinear", "", "b", "input2"},
    {"chunk", "", "count", "chunks"},
    {"cosine_similarity", "", "b", "x2"},
    {"diag", "", "offset", "diagonal"},
    {"diagonal", "", "first", "dim1"},
    {"diagonal", "", "second", "dim2"},
    {"hardtanh", "", "high", "max_val"},
    {"hardtanh", "", "low", "min_val"},
    {"lerp", "", "b", "end"},
    {"margin_ranking_loss", "", "b", "input2"},
    {"nan_to_num", "", "high", "posinf"},
    {"nan_to_num", "", "low", "neginf"},
    {"narrow", "", "count", "length"},
    {"outer", "", "b", "vec2"},
    {"pixel_shuffle", "", "factor", "upscale_factor"},
    {"prelu", "", "weight", "other"},
    {"repeat_interleave", "", "count", "repeats"},
    {"repeat_interleave", "", "counts", "repeats"},
    {"tensordot", "", "b", "b"},
    {"tile", "", "counts", "dims"},
    {"tensordot", "", "axes_a", "dims_a"},
    {"tensordot", "", "axes_b", "dims_b"},
    {"transpose", "", "a", "dim0"},
    {"transpose", "", "b", "dim1"},
    {"", "const Axes&", "axes", "dim"},
    {"", "", "axes", "dims"},
    {"", "", "axis", "dim"},
    {"", "", "b", "other"},
    {"", "", "begin", "start"},
    {"", "", "classes", "num_classes"},
    {"", "", "first", "start_dim"},
    {"", "", "groups", "num_groups"},
    {"", "", "high", "max"},
    {"", "", "keep", "keepdim"},
    {"", "", "last", "end_dim"},
    {"", "", "low", "min"},
    {"", "", "reduce", "reduction"},
    {"", "", "sizes", "output_size"},
    {"", "", "slope", "negative_slope"},
    {"", "", "times", "repeats"},
    {"", "", "y", "target"},
};

// First arguments that PyTorch does not call `input`.
constexpr std::pair<std::string_view, std::string_view> first_arguments[] = {
    {"bilinear", "input1"}, {"cosine_similarity", "x1"},       {"margin_ranking_loss", "input1"},
    {"tensordot", "a"},     {"triplet_margin_loss", "anchor"},
};

// Plain ops of which Python has other arguments, which the files named bind.
constexpr std::string_view python_by_hand[] = {
    "clamp",         "dropout",      "embedding",
    "gelu",          "squeeze",      "where",  // python/src/ops.cpp
    "argmax",        "argmin",       "max",
    "min",           "std",          "var",  // reductions.cpp
    "instance_norm", "one_hot",              // layer_ops.cpp, rearrange.cpp
    "allclose",      "equal",        "movedim",
    "scatter",       "searchsorted",  // python/binade/_functions.py
    "view",                           // _methods.py
};

std::string c_default(const Parameter& parameter) {
  if (parameter.type == "bool") return parameter.otherwise == "true" ? "1" : "0";
  if (parameter.type == "Order") return c_name(parameter) == "largest" ? "1" : "0";
  if (is_absent(parameter.otherwise)) return parameter.is_axes() ? "all" : "none";
  return std::string(enumerator(parameter.otherwise));
}

std::string python_default(const Parameter& parameter) {
  if (parameter.type == "bool") return parameter.otherwise == "true" ? "True" : "False";
  if (parameter.type == "Order") return c_name(parameter) == "largest" ? "True" : "False";
  if (is_absent(parameter.otherwise)) return "None";
  const std::string_view value = enumerator(parameter.otherwise);
  return value == parameter.otherwise ? std::string(value) : "'" + std::string(value) + "'";
}

}  // namespace

std::span<const Parameter> Signature::parameters() const {
  const auto end = std::find_if(all_parameters.begin(), all_parameters.end(),
                                [](const Parameter& one) { return one.name.empty(); });
  return {all_parameters.begin(), end};
}

std::span<const Signature> signatures() {
  static const std::vector<Signature> lines = read_lines();
  return lines;
}

const Signature* find_signature(std::string_view c_name) {
  const std::span<const Signature> all = signatures();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Signature& one) { return one.c_name == c_name; });
  return found == all.end() ? nullptr : &*found;
}

std::string declaration(const Signature& op) {
  std::string text = std::string(op.result) + " " + std::string(op.name) + "(const Tensor& " +
                     std::string(op.self);
  for (const Parameter& one : op.parameters()) {
    text += ", " + std::string(one.type) + " " + std::string(one.name);
    if (one.has_default()) text += " = " + std::string(one.otherwise);
  }
  return text + ");";
}

std::string_view c_name(const Parameter& parameter) {
  if (parameter.type != "Order") return parameter.name;
  return parameter.otherwise == "Order::descending" ? "largest" : "descending";
}

std::string c_signature(const Signature& op) {
  std::string inputs(op.self), options;
  for (const Parameter& one : op.parameters()) {
    if (one.is_tensor()) {
      inputs += ", " + std::string(one.name) + (one.has_default() ? "?" : "");
      continue;
    }
    options += (options.empty() ? "; " : ", ") + std::string(c_name(one));
    if (one.has_default()) options += " = " + c_default(one);
  }
  return std::string(op.c_name) + "(" + inputs + options + ")";
}

bool is_plain_in_python(const Signature& op) {
  return op.is_plain() && std::find(std::begin(python_by_hand), std::end(python_by_hand),
                                    op.name) == std::end(python_by_hand);
}

std::string_view python_self(const Signature& op) {
  for (const auto& [name, first] : first_arguments)
    if (name == op.name) return first;
  return "input";
}

std::string_view python_name(const Signature& op, const Parameter& parameter) {
  if (parameter.type == "Order") return c_name(parameter);
  for (const Spelling& one : spellings) {
    if (one.name == parameter.name && (one.op.empty() || one.op == op.name) &&
        (one.type.empty() || one.type == parameter.type))
      return one.python;
  }
  return parameter.name;
}

std::string_view numpy_name(const Parameter& parameter) {
  if (parameter.is_axes() || parameter.name == "axis") return "axis";
  return parameter.name == "keep" ? "keepdims" : "";
}

std::string python_signature(const Signature& op) {
  std::string text = std::string(op.name) + "(" + std::string(python_self(op));
  const std::span<const Parameter> all = op.parameters();
  const size_t positional = python_positional(all);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == positional) text += ", *";
    text += ", " + std::string(python_name(op, all[i]));
    if (all[i].has_default()) text += "=" + python_default(all[i]);
  }
  return text + ")";
}

std::string python_summary(const Signature& op) {
  const auto renamed = [&](std::string_view word) {
    if (word == op.self) return python_self(op);
    for (const Parameter& one : op.parameters())
      if (one.name == word && numpy_name(one).empty()) return python_name(op, one);
    return word;
  };
  const auto is_letter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string text;
  for (size_t at = 0; at < op.summary.size();) {
    size_t end = at;
    while (end < op.summary.size() && is_letter(op.summary[end])) ++end;
    if (end == at) {
      text += op.summary[at++];
      continue;
    }
    text += renamed(op.summary.substr(at, end - at));
    at = end;
  }
  return text;
}

}  // namespace binade
