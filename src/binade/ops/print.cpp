#include "binade/ops/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

// NumPy's defaults.
constexpr int64_t most_elements = 1000, edge_items = 3;

// The indices that are shown of an axis; -1 stands for those left out.
std::vector<int64_t> shown(int64_t size, bool shortens) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < size; ++i) {
    if (shortens && size > 2 * edge_items && i == edge_items) {
      indices.push_back(-1);
      i = size - edge_items;
    }
    indices.push_back(i);
  }
  return indices;
}

// The elements of a host tensor as text, all in the same form.
std::vector<std::string> integer_texts(const Tensor& x) {
  const Tensor wide = ops::dense(ops::converted(x, DType::i64));
  std::vector<std::string> texts;
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const int64_t value = wide.data<int64_t>()[i];
    texts.push_back(x.dtype() != DType::boolean ? std::to_string(value)
                    : value != 0                ? "true"
                                                : "false");
  }
  return texts;
}

std::vector<std::string> floating_texts(const Tensor& x) {
  const std::vector<double> values = to_vector(x);
  double smallest = INFINITY, largest = 0;
  bool is_whole = true;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    is_whole &= value == std::trunc(value);
    if (value != 0) smallest = std::min(smallest, std::abs(value));
    largest = std::max(largest, std::abs(value));
  }
  // If 4 decimals would hide digits, or the integer part is long: PyTorch's bounds.
  const bool is_scientific =
      largest > 1e8 || (!is_whole && (smallest < 1e-4 || largest > 1e3 * smallest));
  std::vector<std::string> texts;
  for (const double value : values) {
    texts.push_back(!std::isfinite(value) ? fmt::format("{}", value)
                    : is_scientific       ? fmt::format("{:.4e}", value)
                    : is_whole            ? fmt::format("{:.0f}.", value)
                                          : fmt::format("{:.4f}", value));
  }
  return texts;
}

std::vector<std::string> aligned(std::vector<std::string> texts) {
  size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  for (std::string& text : texts) text.insert(0, width - text.size(), ' ');
  return texts;
}

// The elements of x that are shown.
Tensor shortened(Tensor x) {
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t size = x.size(axis);
    if (size <= 2 * edge_items) continue;
    x = cat({slice(x, axis, 0, edge_items), slice(x, axis, size - edge_items, size)}, axis);
  }
  return x;
}

// Writes the rows of one axis. `next` is the next of the shown elements.
void write(const Shape& shape, bool shortens, int axis, const std::string*& next,
           std::string& out) {
  if (axis == shape.rank()) {
    out += *next++;
    return;
  }
  const bool is_last = axis == shape.rank() - 1;
  const std::string between =
      is_last ? ", "
              : "," + std::string(static_cast<size_t>(shape.rank() - 1 - axis), '\n') +
                    std::string(static_cast<size_t>(axis) + 1, ' ');
  out += "[";
  bool is_first = true;
  for (const int64_t i : shown(shape[axis], shortens)) {
    if (!is_first) out += between;
    is_first = false;
    if (i < 0) {
      out += "...";
    } else {
      write(shape, shortens, axis + 1, next, out);
    }
  }
  out += "]";
}

}  // namespace

std::string to_text(const Tensor& x) {
  if (!x.defined() || is_quantized(x.dtype()) || x.device().is_meta()) return describe(x);
  const bool shortens = x.numel() > most_elements;
  const Tensor kept = to(shortens ? shortened(x.detach()) : x.detach(), Device::cpu());
  const std::vector<std::string> texts =
      aligned(is_floating(x.dtype()) ? floating_texts(kept) : integer_texts(kept));
  std::string text;
  const std::string* next = texts.data();
  write(x.shape(), shortens, 0, next, text);
  return text + "\n" + describe(x);
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_text(x); }

}  // namespace binade
