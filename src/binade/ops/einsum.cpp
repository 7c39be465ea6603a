#include "binade/ops/einsum.h"

#include <algorithm>

#include "binade/ops/common.h"
#include "binade/ops/matmul.h"
#include "binade/ops/reduce.h"
#include "binade/ops/shape.h"

// Contractions over named axes, computed as one batched matmul.
namespace binade {
namespace {

using namespace ops;
using AxisList = std::vector<int64_t>;

AxisList joined(std::initializer_list<AxisList> lists) {
  AxisList result;
  for (const auto& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

int64_t numel_of(const Tensor& x, const AxisList& axes) {
  int64_t count = 1;
  for (const int64_t axis : axes) count *= x.size(axis);
  return count;
}

// The axes of x that are not in `summed`, which may name each axis once.
AxisList free_axes(const Tensor& x, const AxisList& summed) {
  AxisList rest;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t times = std::count(summed.begin(), summed.end(), axis);
    if (times > 1)
      fail("tensordot", {.argument = "axes",
                         .expected = "each axis once",
                         .found = std::to_string(axis) + " twice"});
    if (times == 0) rest.push_back(axis);
  }
  return rest;
}

bool has(std::string_view term, char letter) { return term.find(letter) != std::string_view::npos; }

// The parts of an equation like "ij,jk->ik".
struct Equation {
  std::string_view text;
  std::string_view terms[2];  // the second is empty for one operand
  std::string_view out;

  [[noreturn]] void refuse(const char* expected) const {
    fail("einsum",
         {.argument = "equation", .expected = expected, .found = "'" + std::string(text) + "'"});
  }
};

Equation parse(std::string_view text, size_t operands) {
  Equation equation{text, {}, {}};
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos || operands == 0 || operands > 2)
    equation.refuse("one or two operands and '->'");
  const std::string_view inputs = text.substr(0, arrow);
  const size_t comma = inputs.find(',');
  if ((comma != std::string_view::npos) != (operands == 2))
    equation.refuse("as many terms as operands");
  equation.terms[0] = inputs.substr(0, comma);
  if (operands == 2) equation.terms[1] = inputs.substr(comma + 1);
  equation.out = text.substr(arrow + 2);
  return equation;
}

void check(const Equation& equation, std::span<const Tensor> operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    require_compute("einsum", "operands", operands[i]);
    const std::string_view term = equation.terms[i];
    if (static_cast<int>(term.size()) != operands[i].rank())
      equation.refuse("one letter per dimension of each operand");
    for (const char letter : term) {
      if (std::count(term.begin(), term.end(), letter) > 1)
        equation.refuse("each letter once per operand");
    }
  }
  for (const char letter : equation.out) {
    if (!has(equation.terms[0], letter) && !has(equation.terms[1], letter))
      equation.refuse("result letters that occur in an operand");
    if (std::count(equation.out.begin(), equation.out.end(), letter) > 1)
      equation.refuse("each letter once in the result");
  }
  for (size_t axis = 0; axis < equation.terms[0].size(); ++axis) {
    const size_t other = equation.terms[1].find(equation.terms[0][axis]);
    if (other == std::string_view::npos || operands[0].size(static_cast<int64_t>(axis)) ==
                                               operands[1].size(static_cast<int64_t>(other)))
      continue;
    fail("einsum", {.argument = "operands",
                    .expected = "one size for each letter of '" + std::string(equation.text) + "'",
                    .found = describe(operands[0]) + " and " + describe(operands[1])});
  }
}

// A tensor and the letter of each of its axes.
struct Lettered {
  Tensor x;
  std::string letters;

  int64_t axis(char letter) const { return static_cast<int64_t>(letters.find(letter)); }
};

// Sums x over the letters that neither the result nor the other operand has.
Lettered without_unshared(const Tensor& x, std::string_view term, std::string_view other,
                          std::string_view out) {
  Lettered result;
  Axes unshared;
  for (size_t axis = 0; axis < term.size(); ++axis) {
    if (has(out, term[axis]) || has(other, term[axis]))
      result.letters += term[axis];
    else
      unshared.push_back(static_cast<int64_t>(axis));
  }
  result.x = unshared.empty() ? x : sum(x, unshared);
  return result;
}

// One batched matmul: letters of both operands are batch axes if the result has them, else summed.
Lettered multiplied(const Lettered& a, const Lettered& b, std::string_view out) {
  AxisList batch_a, batch_b, free_a, free_b, summed_a, summed_b;
  std::string batch, left, right;
  for (const char letter : a.letters) {
    if (!has(b.letters, letter)) {
      free_a.push_back(a.axis(letter));
      left += letter;
    } else if (has(out, letter)) {
      batch_a.push_back(a.axis(letter));
      batch_b.push_back(b.axis(letter));
      batch += letter;
    } else {
      summed_a.push_back(a.axis(letter));
      summed_b.push_back(b.axis(letter));
    }
  }
  for (const char letter : b.letters) {
    if (has(a.letters, letter)) continue;
    free_b.push_back(b.axis(letter));
    right += letter;
  }
  const int64_t count = numel_of(a.x, batch_a), inner = numel_of(a.x, summed_a);
  const Tensor rows = reshape(permute(a.x, joined({batch_a, free_a, summed_a})),
                              {count, numel_of(a.x, free_a), inner});
  const Tensor columns = reshape(permute(b.x, joined({batch_b, summed_b, free_b})),
                                 {count, inner, numel_of(b.x, free_b)});
  Shape shape;
  for (const int64_t axis : joined({batch_a, free_a})) shape.push_back(a.x.size(axis));
  for (const int64_t axis : free_b) shape.push_back(b.x.size(axis));
  return {reshape(bmm(rows, columns), shape), batch + left + right};
}

}  // namespace

Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<int64_t>& axes_a,
                 const std::vector<int64_t>& axes_b) {
  require_compute("tensordot", "a", a);
  require_compute("tensordot", "b", b);
  if (axes_a.size() != axes_b.size()) {
    fail("tensordot",
         {.argument = "axes",
          .expected = "as many of a as of b",
          .found = std::to_string(axes_a.size()) + " and " + std::to_string(axes_b.size())});
  }
  AxisList summed_a, summed_b;
  for (size_t i = 0; i < axes_a.size(); ++i) {
    summed_a.push_back(normalize_axis("tensordot", axes_a[i], a.rank()));
    summed_b.push_back(normalize_axis("tensordot", axes_b[i], b.rank()));
    if (a.size(summed_a[i]) != b.size(summed_b[i])) {
      fail("tensordot", {.argument = "axes",
                         .expected = "pairs of one size",
                         .found = describe(a) + " and " + describe(b)});
    }
  }
  const AxisList free_a = free_axes(a, summed_a), free_b = free_axes(b, summed_b);
  Shape shape;
  for (const int64_t axis : free_a) shape.push_back(a.size(axis));
  for (const int64_t axis : free_b) shape.push_back(b.size(axis));
  Composite call(Op::tensordot, {a, b});
  require_same_dtype("tensordot", call[0], call[1]);
  const Tensor left = reshape(permute(call[0], joined({free_a, summed_a})),
                              {numel_of(a, free_a), numel_of(a, summed_a)});
  const Tensor right = reshape(permute(call[1], joined({summed_b, free_b})),
                               {numel_of(b, summed_b), numel_of(b, free_b)});
  return call.result(reshape(mm(left, right), shape));
}

Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}

Tensor einsum(std::string_view text, std::span<const Tensor> operands) {
  const Equation equation = parse(text, operands.size());
  check(equation, operands);
  Composite call(Op::einsum, {operands[0], operands.size() == 2 ? operands[1] : Tensor()});
  require_same_dtype("einsum", call[0], call[1]);
  const auto& [first, second] = equation.terms;
  Lettered y = without_unshared(call[0], first, second, equation.out);
  if (operands.size() == 2)
    y = multiplied(y, without_unshared(call[1], second, first, equation.out), equation.out);
  AxisList order;
  for (const char letter : equation.out) order.push_back(y.axis(letter));
  return call.result(permute(y.x, order));
}

}  // namespace binade
