#include "binade/train/report/layer_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "binade/base/json.h"
#include "binade/formats/format.h"
#include "binade/io/file.h"
#include "binade/train/report/svg.h"

namespace binade::train {
namespace {

constexpr const char* history_reader = "report";
constexpr int64_t max_bytes = int64_t{4} << 30;
// As many as a chart can tell apart.
constexpr size_t max_records = 200;
// More rows would be thinner than their names.
constexpr size_t max_rows = 24;

using ByModule = std::map<std::string, LayerHistory::Layer>;

struct Line {
  std::string_view text;
  int64_t offset;
};

std::vector<Line> complete_lines(std::string_view text) {
  std::vector<Line> lines;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1)
    lines.push_back({text.substr(begin, end - begin), static_cast<int64_t>(begin)});
  return lines;
}

double amax(const json::Value& layer, const char* tensor) {
  const json::Value& value = layer.at(tensor).at("amax");
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
}

ByModule parse_layers(const json::Value& root) {
  ByModule layers;
  for (const json::Value& layer : root.at("layers").array()) {
    layers[layer.at("module").string()] = {.harm = layer.at("harm").number(),
                                           .input = amax(layer, "input"),
                                           .weight = amax(layer, "weight"),
                                           .gradient = amax(layer, "gradient")};
  }
  return layers;
}

// Names with numbers by their values: blocks.2 before blocks.10.
bool module_order(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (digit(a[i]) && digit(b[j])) {
      size_t k = i, l = j;
      while (k < a.size() && digit(a[k])) ++k;
      while (l < b.size() && digit(b[l])) ++l;
      if (k - i != l - j) return k - i < l - j;
      if (const int order = a.compare(i, k - i, b, j, l - j); order != 0) return order < 0;
      i = k;
      j = l;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() < b.size();
}

// The modules with the largest harm at any time, in the order of the model.
std::vector<size_t> most_harmed(const LayerHistory& history) {
  std::vector<double> worst(history.modules.size(), 0);
  for (const auto& layers : history.layers) {
    for (size_t i = 0; i < layers.size(); ++i) worst[i] = std::max(worst[i], layers[i].harm);
  }
  std::vector<size_t> order(worst.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&worst](size_t a, size_t b) { return worst[a] > worst[b]; });
  order.resize(std::min(order.size(), max_rows));
  std::sort(order.begin(), order.end());
  return order;
}

// One row per layer, one column per record; the darker, the more harm.
std::string harm_map(const LayerHistory& history) {
  const std::vector<size_t> rows = most_harmed(history);
  size_t longest = 0;
  for (const size_t row : rows) longest = std::max(longest, history.modules[row].size());
  const double names = std::min(8.3 * static_cast<double>(longest) + 8, svg::width * 0.52);
  const double row_height = 21, columns = svg::width - names - 60;
  const double width = columns / static_cast<double>(history.steps.size());
  const double floor = row_height * static_cast<double>(rows.size());
  std::string title = "Harm of FP8 by layer over time";
  if (rows.size() < history.modules.size())
    title += fmt::format(", the {} most harmed of {}", rows.size(), history.modules.size());
  std::string svg = svg::open_figure(title, floor + 40);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = row_height * static_cast<double>(i);
    svg += svg::text("label", "start", 0, y + 16, history.modules[rows[i]]);
    for (size_t j = 0; j < history.steps.size(); ++j) {
      // From 0.001, which is usual, to 1 on a logarithmic scale.
      const double harm = std::max(history.layers[j][rows[i]].harm, 1e-3);
      svg += fmt::format(
          "<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
          "fill-opacity=\"{:.2f}\"/>",
          format_style("fp8").color, names + width * static_cast<double>(j), y + 1, width + 0.1,
          row_height - 2, 0.06 + 0.94 * (1 + std::log10(harm) / 3));
    }
    svg += svg::text("tick", "start", names + columns + 6, y + 16,
                     fmt::format("{:.2g}", history.layers.back()[rows[i]].harm));
  }
  svg += svg::text("tick", "start", names, floor + 16, fmt::format("{}", history.steps.front()));
  svg += svg::text("tick", "end", names + columns, floor + 16,
                   fmt::format("{}", history.steps.back()));
  svg += svg::text("label", "middle", names + columns / 2, floor + 34, "step");
  return svg + svg::text("tick", "start", names + columns + 6, floor + 16, "last") +
         svg::close_figure;
}

std::string magnitude_chart(const LayerHistory& history) {
  Series input{"inputs", {}, {.color = Style::ink}},
      weight{"weights", {}, {.color = Style::ink, .dash = 1}},
      gradient{"gradients", {}, {.color = Style::ink, .dash = 2}},
      f16{"largest f16", {}, format_style("f16")}, e4m3{"largest e4m3", {}, format_style("e4m3")};
  const auto largest = [](const std::vector<LayerHistory::Layer>& layers,
                          double LayerHistory::Layer::*member) {
    double result = 0;
    for (const LayerHistory::Layer& layer : layers) result = std::max(result, layer.*member);
    return std::log2(result);
  };
  for (size_t i = 0; i < history.steps.size(); ++i) {
    const auto step = static_cast<double>(history.steps[i]);
    input.points.emplace_back(step, largest(history.layers[i], &LayerHistory::Layer::input));
    weight.points.emplace_back(step, largest(history.layers[i], &LayerHistory::Layer::weight));
    gradient.points.emplace_back(step, largest(history.layers[i], &LayerHistory::Layer::gradient));
    f16.points.emplace_back(step, std::log2(formats::spec::f16.max()));
    e4m3.points.emplace_back(step, std::log2(formats::spec::e4m3.max()));
  }
  return line_chart({"Largest magnitudes in linear layers", "step", "log2 of the magnitude"},
                    {input, weight, gradient, f16, e4m3});
}

}  // namespace

LayerHistory read_layer_history(const std::filesystem::path& path) {
  if (std::error_code error; !std::filesystem::exists(path, error)) return {};
  const std::string text = io::read_text(path, history_reader, max_bytes);
  const std::vector<Line> lines = complete_lines(text);
  std::map<int64_t, ByModule> records;
  const size_t count = std::min(lines.size(), max_records);
  for (size_t i = 0; i < count; ++i) {
    // The first and the last line are always among them.
    const Line& line = lines[count == 1 ? 0 : i * (lines.size() - 1) / (count - 1)];
    const json::Document document =
        json::parse(line.text, {history_reader, path.string(), line.offset});
    const int64_t step = document.root().at("step").integer(0, int64_t{1} << 60);
    records[step] = parse_layers(document.root());
  }
  if (records.empty()) return {};
  LayerHistory history;
  for (const auto& [module, layer] : records.rbegin()->second) history.modules.push_back(module);
  std::sort(history.modules.begin(), history.modules.end(), module_order);
  for (const auto& [step, layers] : records) {
    history.steps.push_back(step);
    history.layers.emplace_back();
    for (const std::string& module : history.modules) {
      const auto found = layers.find(module);
      history.layers.back().push_back(found == layers.end() ? LayerHistory::Layer{}
                                                            : found->second);
    }
  }
  return history;
}

std::string layer_charts(const LayerHistory& history) {
  if (history.steps.empty() || history.modules.empty()) return "";
  return harm_map(history) + magnitude_chart(history);
}

}  // namespace binade::train
