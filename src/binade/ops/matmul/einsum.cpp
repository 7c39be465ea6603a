#include "binade/ops/matmul/einsum.h"

#include <algorithm>

#include "binade/ops/common.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

// Contractions over named axes, computed as batched matmuls.
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

// An equation like "ij,jk->ik". Axes under "..." have digits for letters: '0' is the last one.
struct Equation {
  std::string_view text;
  std::vector<std::string> terms;
  std::string out;

  [[noreturn]] void refuse(const char* expected) const {
    fail("einsum",
         {.argument = "equation", .expected = expected, .found = "'" + std::string(text) + "'"});
  }
};

constexpr std::string_view ellipsis = "...";
// Digits name the axes under an ellipsis.
constexpr int max_ellipsis_axes = 10;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The digits of so many axes, last axis last.
std::string digits(int axes) {
  std::string result;
  for (int i = axes - 1; i >= 0; --i) result += static_cast<char>('0' + i);
  return result;
}

// A term with its ellipsis replaced by the digits of `axes` axes.
std::string expanded(const Equation& equation, std::string term, int axes) {
  if (const size_t at = term.find(ellipsis); at != std::string::npos) {
    if (axes < 0 || axes > max_ellipsis_axes)
      equation.refuse("one letter per dimension of each operand");
    term.replace(at, ellipsis.size(), digits(axes));
  }
  for (const char c : term) {
    if (!is_letter(c) && !(c >= '0' && c <= '9'))
      equation.refuse("letters, one '...' per term, ',' and '->'");
  }
  return term;
}

// Without "->" the result has the axes of the ellipsis, then the letters that occur once.
std::string implicit_result(const std::vector<std::string>& terms, int ellipsis_axes) {
  std::string letters;
  for (const std::string& term : terms) letters += term;
  std::string once;
  for (const char c : letters) {
    if (is_letter(c) && std::count(letters.begin(), letters.end(), c) == 1) once += c;
  }
  std::sort(once.begin(), once.end());
  return digits(ellipsis_axes) + once;
}

Equation parse(std::string_view text, std::span<const Tensor> operands) {
  Equation equation{text, {}, {}};
  std::string compact(text);
  std::erase(compact, ' ');
  if (std::any_of(compact.begin(), compact.end(), [](char c) { return c >= '0' && c <= '9'; }))
    equation.refuse("letters, one '...' per term, ',' and '->'");
  const size_t arrow = compact.find("->");
  const std::string inputs = compact.substr(0, arrow);
  for (size_t begin = 0; begin <= inputs.size();) {
    const size_t end = std::min(inputs.find(',', begin), inputs.size());
    equation.terms.push_back(inputs.substr(begin, end - begin));
    begin = end + 1;
  }
  if (operands.empty() || equation.terms.size() != operands.size())
    equation.refuse("as many terms as operands");
  int ellipsis_axes = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    require_compute("einsum", "operands", operands[i]);
    std::string& term = equation.terms[i];
    const bool has_ellipsis = term.find(ellipsis) != std::string::npos;
    const int named = static_cast<int>(term.size()) - (has_ellipsis ? 3 : 0);
    const int axes = operands[i].rank() - named;
    term = expanded(equation, term, axes);
    if (!has_ellipsis && axes != 0) equation.refuse("one letter per dimension of each operand");
    if (has_ellipsis) ellipsis_axes = std::max(ellipsis_axes, axes);
  }
  equation.out = arrow == std::string::npos
                     ? implicit_result(equation.terms, ellipsis_axes)
                     : expanded(equation, compact.substr(arrow + 2), ellipsis_axes);
  for (const char letter : equation.out) {
    const bool known = std::any_of(equation.terms.begin(), equation.terms.end(),
                                   [letter](const std::string& term) { return has(term, letter); });
    if (!known) equation.refuse("result letters that occur in an operand");
    if (std::count(equation.out.begin(), equation.out.end(), letter) > 1)
      equation.refuse("each letter once in the result");
  }
  return equation;
}

// A tensor and the letter of each of its axes.
struct Lettered {
  Tensor x;
  std::string letters;

  int64_t axis(char letter) const { return static_cast<int64_t>(letters.find(letter)); }
};

// The elements of x whose indices under a repeated letter are equal, the letter once.
Lettered diagonals(const Equation& equation, Lettered a) {
  for (size_t first = 0; first < a.letters.size(); ++first) {
    for (size_t second = a.letters.find(a.letters[first], first + 1); second != std::string::npos;
         second = a.letters.find(a.letters[first], first + 1)) {
      const int64_t size = a.x.size(static_cast<int64_t>(first));
      if (a.x.size(static_cast<int64_t>(second)) != size)
        equation.refuse("one size for each letter");
      // The two axes last and as one: the diagonal is every (size + 1)-th element of it.
      AxisList order;
      for (int64_t axis = 0; axis < a.x.rank(); ++axis) {
        if (axis != static_cast<int64_t>(first) && axis != static_cast<int64_t>(second))
          order.push_back(axis);
      }
      order.push_back(static_cast<int64_t>(first));
      order.push_back(static_cast<int64_t>(second));
      const Tensor last = permute(a.x, order);
      Shape shape = last.shape();
      shape.erase(shape.rank() - 1);
      shape[shape.rank() - 1] = size * size;
      a.x = slice(reshape(last, shape), -1, 0, size * size, size + 1);
      const char letter = a.letters[first];
      a.letters.erase(second, 1);
      a.letters.erase(first, 1);
      a.letters += letter;
      first = static_cast<size_t>(-1);  // positions have changed
      break;
    }
  }
  return a;
}

// Sums x over the letters that nothing else has.
Lettered without_unshared(const Lettered& a, std::string_view others) {
  Lettered result;
  Axes unshared;
  for (size_t axis = 0; axis < a.letters.size(); ++axis) {
    if (has(others, a.letters[axis]))
      result.letters += a.letters[axis];
    else
      unshared.push_back(static_cast<int64_t>(axis));
  }
  result.x = unshared.empty() ? a.x : sum(a.x, unshared);
  return result;
}

// Leaves out axes of size 1 whose letter has another size elsewhere: they broadcast.
Lettered without_broadcast(const Lettered& a, const std::vector<Lettered>& all,
                           const Equation& equation) {
  Lettered result;
  Shape shape;
  for (const char letter : a.letters) {
    int64_t size = 1;
    for (const Lettered& other : all) {
      if (!has(other.letters, letter)) continue;
      const int64_t found = other.x.size(other.axis(letter));
      if (found != 1 && size != 1 && found != size) {
        fail("einsum",
             {.argument = "operands",
              .expected = "one size for each letter of '" + std::string(equation.text) + "'",
              .found = describe(a.x) + " and " + describe(other.x)});
      }
      size = found != 1 ? found : size;
    }
    if (a.x.size(a.axis(letter)) == 1 && size != 1) continue;
    shape.push_back(a.x.size(a.axis(letter)));
    result.letters += letter;
  }
  result.x = reshape(a.x, shape);
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

// With one axis per letter of `out`, in its order.
Tensor ordered(const Lettered& a, std::string_view out) {
  AxisList order;
  for (const char letter : out) order.push_back(a.axis(letter));
  return permute(a.x, order);
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

// Operands are multiplied from left to right.
Tensor einsum(std::string_view text, std::span<const Tensor> operands) {
  const Equation equation = parse(text, operands);
  std::vector<Lettered> all;
  for (size_t i = 0; i < operands.size(); ++i)
    all.push_back(diagonals(equation, {operands[i], equation.terms[i]}));
  std::vector<Lettered> factors;
  for (const Lettered& one : all) factors.push_back(without_broadcast(one, all, equation));
  // The letters that something after factor i still needs.
  const auto needed_after = [&](size_t i) {
    std::string letters = equation.out;
    for (size_t j = i + 1; j < factors.size(); ++j) letters += factors[j].letters;
    return letters;
  };
  Lettered y = factors[0];
  if (factors.size() == 1) {
    Composite call(Op::einsum, {y.x});
    return call.result(ordered(without_unshared({call[0], y.letters}, equation.out), equation.out));
  }
  // Each product is one call under autocast.
  for (size_t i = 1; i < factors.size(); ++i) {
    Composite call(Op::einsum, {y.x, factors[i].x});
    require_same_dtype("einsum", call[0], call[1]);
    const std::string later = needed_after(i);
    const Lettered a = without_unshared({call[0], y.letters}, factors[i].letters + later),
                   b = without_unshared({call[1], factors[i].letters}, y.letters + later);
    y = multiplied(a, b, later);
    if (i + 1 == factors.size()) y.x = ordered(y, equation.out);
    y.x = call.result(y.x);
  }
  return y.x;
}

}  // namespace binade
