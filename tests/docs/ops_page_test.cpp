#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "binade/autograd/signature.h"
#include "binade/c.h"
#include "support/paths.h"

// docs/ops.md is what tensor/ops.def says, in the words of each language:
//   BINADE_WRITE_PAGE=1 ./binade dev docs -R OpsPage     writes it anew
namespace binade {
namespace {

constexpr const char* introduction =
    R"(# Ops

Every op, as C++, C and Python spell it. This page is made from `src/binade/tensor/ops.def`, as are the methods of `Tensor`,
the C table and the Python bindings with their docstrings. The headers named say what ops promise.

- **Methods**: `x.name(...)` in C++ and Python; *in place*: also `x.name_(...)`, which writes into `x` and into its graph.
- **Axes** in Python are `dim` and `keepdim`, or `axis` and `keepdims` as in NumPy.
- **C**: inputs stand before `;`, those with `?` may be left out; options come after it ([c.md](c.md)).
- **Autocast**: the class that [precision.md](precision.md) explains; *composed*: that of the ops it is made of.
- Ops without a signature here take a struct of options, a function or a list of tensors in C++, or arguments of their own in
  Python: see their header, and `help()`.
)";

std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

// The C signature of an op written by hand, if C has one of its name.
std::string c_entry(std::string_view name) {
  for (size_t i = 0; i < bnd_op_count(); ++i)
    if (name == bnd_op_name(i)) return bnd_op_signature(i);
  return "";
}

std::string form_of(const Signature& op) {
  if (op.form == OpForm::in_place) return "method, in place";
  return op.form == OpForm::method ? "method" : "function";
}

std::string code(std::string_view text) {
  return text.empty() ? std::string() : "`" + cell(text) + "`";
}

std::string page() {
  std::ostringstream text;
  text << introduction;
  std::string_view section;
  for (const Signature& op : signatures()) {
    if (op.section != section) {
      section = op.section;
      text << "\n## " << section << "\n\n`" << op.header << "`\n\n"
           << "| op | C | Python | form | autocast | gradient |\n|---|---|---|---|---|---|\n";
    }
    text << "| **" << op.name << "** " << cell(op.summary);
    if (op.is_plain()) text << " " << code(declaration(op));
    text << " | " << code(c_entry(op.c_name)) << " | "
         << code(is_plain_in_python(op) ? python_signature(op) : std::string(op.name)) << " | "
         << form_of(op) << " | " << (op.cast ? name(*op.cast) : "composed") << " | "
         << (op.no_gradient_reason.empty() ? "yes" : "no: " + std::string(op.no_gradient_reason))
         << " |\n";
  }
  return text.str();
}

TEST(OpsPage, IsWhatTheDescriptionSays) {
  const std::string path = (test::source_dir() / "docs/ops.md").string();
  if (std::getenv("BINADE_WRITE_PAGE") != nullptr) std::ofstream(path) << page();
  std::ostringstream found;
  found << std::ifstream(path).rdbuf();
  EXPECT_EQ(found.str(), page()) << "BINADE_WRITE_PAGE=1 ./binade dev docs -R OpsPage writes it";
}

}  // namespace
}  // namespace binade
