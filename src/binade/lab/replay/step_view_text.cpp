#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/io/safetensors.h"
#include "binade/lab/range_chart.h"
#include "binade/lab/replay/step_view.h"
#include "binade/train/report/html_page.h"

namespace binade::lab {
namespace {

constexpr int64_t exponent_bar = 40;

std::string share_text(double fraction) {
  if (fraction == 0) return "-";
  return fraction < 1e-4 ? "<0.01%" : fmt::format("{:.2f}%", 100 * fraction);
}

double fraction(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Cells of a tensor's row, in the order of the header.
const std::vector<std::string> view_header = {"tensor",     "type",      "shape",   "min",
                                              "max",        "mean",      "rms",     "zeros",
                                              "non-finite", "saturated", "flushed", "from f32"};

std::vector<std::string> view_cells(const ViewedTensor& tensor) {
  const TensorSummary& s = tensor.summary;
  const io::Statistics& n = s.numbers;
  const auto number = [](double x) { return fmt::format("{:.4g}", x); };
  return {tensor.name + (tensor.unobserved.empty() ? "" : " *"),
          std::string(name(tensor.value.dtype())),
          to_string(tensor.value.shape()),
          number(n.min),
          number(n.max),
          number(n.mean),
          number(s.rms),
          share_text(fraction(n.zeros, n.count)),
          share_text(fraction(n.infinities + n.nans, n.count)),
          share_text(s.saturated),
          s.shadow ? share_text(s.shadow->flushed) : "",
          s.shadow ? fmt::format("{:.2g}", s.shadow->relative) : ""};
}

std::string view_table(const StepView& view) {
  std::vector<std::vector<std::string>> rows = {view_header};
  for (const ViewedTensor& tensor : view.tensors) rows.push_back(view_cells(tensor));
  std::vector<size_t> widths(view_header.size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i < 2 ? fmt::format("{:<{}}  ", row[i], widths[i])
                    : fmt::format("{:>{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string exponents_text(const io::Statistics& n) {
  int64_t highest = 1;
  for (const auto& [exponent, count] : n.exponents) highest = std::max(highest, count);
  std::string text;
  for (auto at = n.exponents.rbegin(); at != n.exponents.rend(); ++at) {
    const auto length = static_cast<size_t>((at->second * exponent_bar + highest - 1) / highest);
    text += fmt::format("    {:>8} {:<{}} {}\n", fmt::format("2^{}", at->first),
                        std::string(length, '#'), exponent_bar,
                        share_text(fraction(at->second, n.count)));
  }
  return text;
}

std::string outliers_text(const TensorSummary& s) {
  std::string text;
  for (const Outlier& one : s.outliers)
    text += fmt::format("{}{} at {}", text.empty() ? "" : ", ", one.value, to_string(one.index));
  return text;
}

std::string view_verdict(const StepView& view) {
  if (view.difference)
    return fmt::format(
        "step {}: the replayed {} differ from those that {} records: this is not "
        "what the run did",
        view.difference->step, view.difference->parts, view.difference->record);
  if (!view.observed_difference.empty())
    return fmt::format("the observed step changed {} otherwise than the unobserved one",
                       view.observed_difference);
  return view.compared == 0
             ? "no hash was recorded on the way: nothing tells whether the run did the same"
             : fmt::format(
                   "{} recorded hash{} met on the way, {}equal; the observed step is the "
                   "unobserved one, bit for bit",
                   view.compared, view.compared == 1 ? " was" : "es were",
                   view.compared == 1 ? "" : "all ");
}

std::string view_origin(const StepView& view) {
  return fmt::format("step {}{}, replayed from {}; loss {:.6g}, gradient norm {:.4g}{}", view.step,
                     view.micro < 0 ? "" : fmt::format(", micro-batch {}", view.micro),
                     view.origin == 0 ? "the start" : fmt::format("step {}", view.origin),
                     view.loss, view.gradient_norm,
                     view.applied ? "" : "; skipped: " + view.reason);
}

std::string marks_text(const StepView& view) {
  std::string text;
  for (const ViewedTensor& tensor : view.tensors) {
    if (!tensor.unobserved.empty() && text.find(tensor.unobserved) == text.npos)
      text += (text.empty() ? "" : ", or ") + tensor.unobserved;
  }
  return text.empty() ? "" : "* a step that nothing observes computes it " + text;
}

void put(json::Writer& out, const char* key, double value) {
  out.key(key);
  std::isfinite(value) ? out.value(value) : out.value(nullptr);
}

void write_tensor(json::Writer& out, const ViewedTensor& tensor) {
  const TensorSummary& s = tensor.summary;
  const io::Statistics& n = s.numbers;
  out.begin_object().key("name").value(tensor.name);
  out.key("dtype").value(name(tensor.value.dtype())).key("shape").begin_array();
  for (const int64_t size : tensor.value.shape()) out.value(size);
  out.end_array().key("count").value(n.count).key("zeros").value(n.zeros);
  out.key("subnormals").value(n.subnormals).key("infinities").value(n.infinities);
  out.key("nans").value(n.nans);
  put(out, "min", n.min), put(out, "max", n.max), put(out, "mean", n.mean), put(out, "rms", s.rms);
  put(out, "amax", s.amax), put(out, "saturated", s.saturated);
  if (s.shadow) {
    out.key("from_f32").begin_object();
    put(out, "relative", s.shadow->relative), put(out, "largest", s.shadow->largest);
    put(out, "flushed", s.shadow->flushed);
    out.end_object();
  }
  if (!tensor.unobserved.empty()) out.key("unobserved").value(tensor.unobserved);
  out.key("exponents").begin_object();
  for (const auto& [exponent, count] : n.exponents) out.key(std::to_string(exponent)).value(count);
  out.end_object().key("outliers").begin_array();
  for (const Outlier& one : s.outliers) {
    out.begin_object().key("index").begin_array();
    for (const int64_t i : one.index) out.value(i);
    out.end_array();
    put(out, "value", one.value);
    out.end_object();
  }
  out.end_array().end_object();
}

}  // namespace

std::string view_text(const StepView& view, bool histogram) {
  std::string text = view_origin(view) + "\n" + view_verdict(view) + "\n\n";
  if (!histogram) {
    text += view_table(view);
  } else {
    for (const ViewedTensor& tensor : view.tensors) {
      StepView one;
      one.tensors.push_back(tensor);
      text += view_table(one) + exponents_text(tensor.summary.numbers) +
              "    largest: " + outliers_text(tensor.summary) + "\n\n";
    }
  }
  const std::string marks = marks_text(view);
  return text + (marks.empty() ? "" : marks + "\n");
}

std::string view_json(const StepView& view) {
  json::Writer out(2);
  out.begin_object().key("step").value(view.step).key("micro").value(view.micro);
  out.key("replayed_from").value(view.origin).key("hashes_compared").value(view.compared);
  out.key("equal").value(view.equal()).key("verdict").value(view_verdict(view));
  put(out, "loss", view.loss), put(out, "gradient_norm", view.gradient_norm);
  out.key("applied").value(view.applied).key("hash").begin_object();
  for (const auto& [part, hash] : view.hash) out.key(part).value(fmt::format("{:016x}", hash));
  out.end_object().key("notes").begin_array();
  for (const std::string& note : view.notes) out.value(note);
  out.end_array().key("tensors").begin_array();
  for (const ViewedTensor& tensor : view.tensors) write_tensor(out, tensor);
  return out.end_array().end_object().text() + "\n";
}

std::string view_html(const StepView& view, const std::string& title) {
  std::string body = "<p>" + train::escaped(view_origin(view)) + "</p>\n<p>" +
                     train::escaped(view_verdict(view)) + "</p>\n";
  for (const std::string& note : view.notes) body += "<p>" + train::escaped(note) + "</p>\n";
  train::Table table{.header = view_header, .rows = {}, .detail = {"min", "mean", "shape"}};
  std::vector<ExponentHistogram> histograms;
  std::vector<train::Style> styles;
  for (const ViewedTensor& tensor : view.tensors) {
    std::vector<std::string> cells = view_cells(tensor);
    for (std::string& cell : cells) cell = train::escaped(cell);
    table.rows.push_back(std::move(cells));
    const io::Statistics& n = tensor.summary.numbers;
    if (n.exponents.empty()) continue;
    ExponentHistogram histogram{.name = tensor.name, .first = n.exponents.begin()->first};
    for (int e = histogram.first; e <= n.exponents.rbegin()->first; ++e) {
      const auto found = n.exponents.find(e);
      histogram.fractions.push_back(found == n.exponents.end() ? 0
                                                               : fraction(found->second, n.count));
    }
    histogram.zeros = fraction(n.zeros, n.count);
    histograms.push_back(std::move(histogram));
    styles.push_back({.color = train::format_style(std::string(name(tensor.value.dtype()))).color});
  }
  body += train::to_html(table) + "<p>" + train::escaped(marks_text(view)) + "</p>\n";
  std::vector<const ExponentHistogram*> all;
  std::vector<HistogramRow> rows;
  for (size_t i = 0; i < histograms.size(); ++i) {
    all.push_back(&histograms[i]);
    rows.push_back({histograms[i].name, &histograms[i], styles[i], {}});
  }
  if (!rows.empty())
    body += "<main>\n" +
            histogram_chart("Fraction of values by exponent", rows, ExponentAxis::around(all)) +
            "</main>\n";
  return train::page(title, body);
}

void save_view(const StepView& view, const std::string& file) {
  StateDict tensors;
  for (const ViewedTensor& tensor : view.tensors) tensors[tensor.name] = tensor.value;
  io::save_safetensors(
      file, tensors, {{"step", std::to_string(view.step)}, {"micro", std::to_string(view.micro)}});
}

}  // namespace binade::lab
