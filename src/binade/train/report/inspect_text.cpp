#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/division.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/train/report/chart.h"
#include "binade/train/report/inspect.h"
#include "binade/train/run/progress.h"

namespace binade::train {
namespace {

constexpr int64_t bar_length = 40;
constexpr double worth_a_row = 1e-4;  // binades with a smaller fraction share the last row

// A percentage; a small fraction is never shown as zero.
std::string percentage(int64_t part, int64_t whole) {
  if (part == 0 || whole == 0) return "-";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return percent < 0.01 ? "<0.01%" : fmt::format("{:.2f}%", percent);
}

std::string shown_name(const std::string& name) {
  return visible(shortened_from_left(name, longest_shown_name));
}

// Widths of the columns that adapt to their content.
struct Widths {
  size_t name = 6;
  size_t shape = 5;
};

std::string shape_of(const io::TensorEntry& entry) {
  return fmt::format("[{}]", fmt::join(entry.shape, ", "));
}

std::string row(const Widths& widths, const std::string& name, const std::string& format,
                const std::string& shape, int64_t bytes, const io::Statistics& s) {
  return fmt::format(
      "{:<{}}  {:<7} {:>{}} {:>7} {:>9.3g} {:>9.3g} {:>9.3g} {:>9.3g} {:>7} {:>9} {:>10}\n", name,
      widths.name, format, shape, widths.shape, bytes_text(bytes), s.min, s.max, s.mean,
      s.deviation, percentage(s.zeros, s.count), percentage(s.subnormals, s.count),
      percentage(s.infinities + s.nans, s.count));
}

std::string bar(const std::string& label, int64_t count, int64_t highest, int64_t whole) {
  const auto length = static_cast<size_t>(divide_up(count * bar_length, highest));
  return fmt::format("    {:>10} {:<{}} {}\n", label, std::string(length, '#'), bar_length,
                     percentage(count, whole));
}

// The binades of a tensor's values, the largest first.
std::string histogram(const io::Statistics& s) {
  if (s.exponents.empty()) return "";
  int64_t highest = 0, tail = 0;
  for (const auto& [exponent, count] : s.exponents) highest = std::max(highest, count);
  // The smallest binades, whose sum is too small for rows of their own.
  auto first = s.exponents.begin();
  while (std::next(first) != s.exponents.end() &&
         static_cast<double>(tail + first->second) < worth_a_row * static_cast<double>(s.count)) {
    tail += (first++)->second;
  }
  std::string text;
  for (auto at = std::prev(s.exponents.end());; --at) {
    text += bar(fmt::format("2^{}", at->first), at->second, highest, s.count);
    if (at == first) break;
  }
  if (tail > 0) text += bar("below", tail, highest, s.count);
  return text;
}

std::string tensors_text(const Inspection& inspection, bool with_histogram) {
  Widths widths;
  for (const InspectedTensor& tensor : inspection.tensors) {
    widths.name = std::max(widths.name, shown_name(tensor.entry.name).size());
    widths.shape = std::max(widths.shape, shape_of(tensor.entry).size());
  }
  std::string text =
      fmt::format("{:<{}}  {:<7} {:>{}} {:>7} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9} {:>10}\n",
                  "tensor", widths.name, "dtype", "shape", widths.shape, "size", "min", "max",
                  "mean", "std", "zeros", "subnormal", "non-finite");
  io::Statistics all;
  int64_t bytes = 0;
  std::string file;
  const bool several = !inspection.tensors.empty() &&
                       inspection.tensors.front().file != inspection.tensors.back().file;
  for (const auto& [name, entry, numbers] : inspection.tensors) {
    if (several && name != file) text += visible(file = name) + "\n";
    text +=
        row(widths, shown_name(entry.name), entry.format, shape_of(entry), entry.bytes, numbers);
    if (with_histogram) text += histogram(numbers);
    bytes += entry.bytes;
    all.add(numbers);
  }
  if (inspection.tensors.size() > 1)
    text += row(widths, "all", "", fmt::format("{}", all.count), bytes, all);
  return text;
}

std::string keys_text(const std::vector<InspectedKey>& keys) {
  size_t width = 0;
  for (const InspectedKey& key : keys) width = std::max(width, shown_name(key.name).size());
  std::string text;
  for (const InspectedKey& key : keys)
    text += fmt::format("{:<{}}  {}\n", shown_name(key.name), width, visible(key.value));
  return text.empty() ? text : text + "\n";
}

std::string tokens_text(const data::TokenStatistics& tokens) {
  std::string text = fmt::format(
      "tokens    {}\nids       {} to {}, {} different\nentropy   {:.4f} bits per token\n",
      tokens.count, tokens.smallest, tokens.largest, tokens.distinct, tokens.entropy);
  if (tokens.commonest.empty()) return text;
  text += "commonest\n";
  for (const auto& [id, count] : tokens.commonest)
    text += bar(std::to_string(id), count, tokens.commonest[0].second, tokens.count);
  return text;
}

void put_tensor(json::Writer& out, const InspectedTensor& tensor) {
  const io::Statistics& s = tensor.numbers;
  out.begin_object().key("file").value(tensor.file).key("name").value(tensor.entry.name);
  out.key("dtype").value(tensor.entry.format).key("shape").begin_array();
  for (const int64_t size : tensor.entry.shape) out.value(size);
  out.end_array().key("bytes").value(tensor.entry.bytes).key("count").value(s.count);
  out.key("min").value(s.min).key("max").value(s.max).key("mean").value(s.mean);
  out.key("std").value(s.deviation).key("zeros").value(s.zeros);
  out.key("subnormals").value(s.subnormals).key("infinities").value(s.infinities);
  out.key("nans").value(s.nans).key("exponents").begin_object();
  for (const auto& [exponent, count] : s.exponents) out.key(std::to_string(exponent)).value(count);
  out.end_object().end_object();
}

void put_tokens(json::Writer& out, const data::TokenStatistics& tokens) {
  out.begin_object().key("count").value(tokens.count).key("distinct").value(tokens.distinct);
  out.key("smallest").value(tokens.smallest).key("largest").value(tokens.largest);
  out.key("entropy").value(tokens.entropy).key("commonest").begin_array();
  for (const auto& [id, count] : tokens.commonest)
    out.begin_object().key("id").value(id).key("count").value(count).end_object();
  out.end_array().end_object();
}

}  // namespace

std::string inspection_text(const Inspection& inspection, bool with_histogram) {
  const std::string head =
      fmt::format("{}: {}, {}\n\n", inspection.path, inspection.kind, bytes_text(inspection.bytes));
  return head + keys_text(inspection.keys) +
         (inspection.tokens ? tokens_text(*inspection.tokens)
                            : tensors_text(inspection, with_histogram));
}

std::string inspection_json(const Inspection& inspection) {
  json::Writer out(2);
  out.begin_object().key("path").value(inspection.path).key("kind").value(inspection.kind);
  out.key("bytes").value(inspection.bytes);
  if (!inspection.keys.empty()) {
    out.key("keys").begin_object();
    for (const InspectedKey& key : inspection.keys) out.key(key.name).value(key.value);
    out.end_object();
  }
  out.key("tensors").begin_array();
  for (const InspectedTensor& tensor : inspection.tensors) put_tensor(out, tensor);
  out.end_array();
  if (inspection.tokens) {
    out.key("tokens");
    put_tokens(out, *inspection.tokens);
  }
  return out.end_object().text() + "\n";
}

}  // namespace binade::train
