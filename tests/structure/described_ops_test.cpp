#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "structure/source_tree.h"
#include "support/pattern.h"

// tensor/ops.def and the headers of ops agree, and no op is missing from it.
namespace binade::structure {
namespace {

// Text with every run of spaces and line breaks as one space.
std::string on_one_line(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const char plain = c == '\n' ? ' ' : c;
    if (plain != ' ' || result.empty() || result.back() != ' ') result += plain;
  }
  return result;
}

std::string description() { return read_source("src/binade/tensor/ops.def"); }

std::set<std::string> names_of(const std::string& text, const char* pattern) {
  std::set<std::string> found;
  for (const auto& match : test::Pattern(pattern).find_all(text)) found.insert(match[1]);
  return found;
}

// Headers that binade.h offers and that hold ops.
std::vector<std::string> op_headers() {
  // New tensors, functions of users, printing and exchange are no ops on tensors.
  const std::set<std::string> others{
      "binade/ops/create/create.h", "binade/ops/custom.h", "binade/ops/dlpack.h",
      "binade/ops/function.h",      "binade/ops/print.h",  "binade/ops/quantized/quantize.h",
      "binade/ops/recompute.h"};
  std::vector<std::string> headers;
  for (const std::string& header : project_includes(read_source("src/binade/binade.h")))
    if (header.starts_with("binade/ops/") && others.count(header) == 0) headers.push_back(header);
  return headers;
}

// Functions of ops that are no ops of their own: definitions by plain ops, and parts of others.
bool is_definition(const std::string& name) {
  static const std::set<std::string> parts{"activate",          // the activation of linear
                                           "batch_norm_relu",   // recorded as batch_norm
                                           "decode_attention",  // a step of generation
                                           "document_bounds",
                                           "fill_",
                                           "index",
                                           "index_put_",
                                           "copy_",
                                           "add_",
                                           "linear_with_swiglu",
                                           "logits_rows",
                                           "overwrite_",  // what in-place forms do
                                           "reduced_loss",
                                           "rope_",
                                           "rope_tables",
                                           "scalar_of",
                                           "swapaxes",  // transpose
                                           "to",
                                           "token_log_probs",  // recorded as cross_entropy
                                           "whole_pow",
                                           "binary_cross_entropy_with_logits"};
  static const std::set<std::string> creation{"empty_like", "logspace", "normal", "rand_like",
                                              "randn_like"};
  return name.ends_with("_composite") || parts.count(name) + creation.count(name) != 0;
}

TEST(DescribedOps, AreAllThatTheHeadersDeclare) {
  const std::set<std::string> described =
      names_of("\n" + description(), "\n(?:OP|UNARY|BINARY|ODD|OVERLOAD)\\((\\w+),");
  ASSERT_GT(described.size(), 200u);
  size_t checked = 0;
  for (const std::string& header : op_headers()) {
    const std::string text = "\n" + without_comments(read_source("src/" + header));
    const std::set<std::string> declared =
        names_of(text,
                 "\n(?:inline )?(?:Tensor|bool|void|Sorted|Extremum|Unique|std::vector<Tensor>|"
                 "std::pair<Tensor, Tensor>) (\\w+)\\(");
    for (const std::string& name : declared) {
      if (name == "operator" || is_definition(name)) continue;
      ++checked;
      EXPECT_TRUE(described.count(name) != 0)
          << header << " declares " << name << ", of which src/binade/tensor/ops.def has no line";
    }
  }
  EXPECT_GT(checked, 150u);
}

// "const Tensor& b" of "(const Tensor&, b)", "double value = 1" of "(double, value, 1)".
std::string parameters_of(const std::string& tuples) {
  static const test::Pattern tuple("\\(([^,()]+), (\\w+)(?:, ([^()]+))?\\)");
  std::string text;
  for (const auto& match : tuple.find_all(tuples)) {
    text += ", " + match[1] + " " + match[2];
    if (!match[3].empty()) text += " = " + match[3];
  }
  return text;
}

TEST(DescribedOps, HaveTheSignaturesOfTheHeaders) {
  std::string headers;
  for (const std::string& header : op_headers())
    headers += on_one_line(without_comments(read_source("src/" + header)));
  const auto expect_declared = [&](const std::string& declaration) {
    EXPECT_TRUE(headers.find(declaration) != std::string::npos)
        << "no header in src/binade/ops declares " << declaration;
  };
  const std::string text = "\n" + description();
  for (const std::string& name : names_of(text, "\nUNARY\\((\\w+),"))
    expect_declared("Tensor " + name + "(const Tensor& x)");
  for (const std::string& name : names_of(text, "\nBINARY\\((\\w+),"))
    expect_declared("Tensor " + name + "(const Tensor& a, const Tensor& b)");
  const test::Pattern op(
      "\n(?:OP|OVERLOAD)\\((\\w+), .*\", (Tensor|bool|Sorted|std::vector<Tensor>), "
      "(\\w+)(.*)\\)(?=\n)");
  size_t checked = 0;
  for (const auto& match : op.find_all(text)) {
    ++checked;
    expect_declared(match[2] + " " + match[1] + "(const Tensor& " + match[3] +
                    parameters_of(match[4]) + ")");
  }
  EXPECT_EQ(checked, names_of(text, "\nOP\\((\\w+),").size() +
                         names_of(text, "\nOVERLOAD\\(\\w+, (\\w+),").size());
}

// What Python binds by hand is bound.
TEST(DescribedOps, AreInPython) {
  const std::set<std::string> odd = names_of("\n" + description(), "\nODD\\((\\w+),");
  const std::string plain = read_source("src/binade/autograd/signature.cpp");
  const size_t begin = plain.find("python_by_hand[] = {");
  ASSERT_NE(begin, std::string::npos);
  const std::set<std::string> by_hand =
      names_of(plain.substr(begin, plain.find("};", begin) - begin), "\"(\\w+)\"");
  std::set<std::string> bound{"custom"};  // binade.autograd.Function
  for (const std::string& file : files_under("python/src", {".cpp"}))
    bound.merge(names_of(read_source(file), "\"_?(\\w+)\""));
  for (const std::string& file : files_under("python/binade", {".py"}))
    bound.merge(names_of(read_source(file), "def _?(\\w+)"));
  EXPECT_GT(odd.size(), 15u);
  EXPECT_GT(by_hand.size(), 10u);
  for (const std::string& op : odd) EXPECT_TRUE(bound.count(op) != 0) << op;
  for (const std::string& op : by_hand) EXPECT_TRUE(bound.count(op) != 0) << op;
}

}  // namespace
}  // namespace binade::structure
