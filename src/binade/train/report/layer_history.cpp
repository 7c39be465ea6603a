#include "binade/train/report/layer_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/formats/format.h"
#include "binade/io/checksum.h"
#include "binade/io/file.h"
#include "binade/train/report/heat_map.h"

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

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

double number_or_nan(const json::Value& object, const char* name) {
  const json::Value* const value = object.find(name);
  return value == nullptr || value->is_null() ? unknown : value->number();
}

LayerHistory::Tensor parse_tensor(const json::Value& value) {
  LayerHistory::Tensor tensor{
      .amax = number_or_nan(value, "amax"),
      .zeros = number_or_nan(value, "zeros"),
      .outliers = number_or_nan(value, "outlier_channels") / number_or_nan(value, "channels")};
  for (size_t i = 0; i < LayerHistory::formats; ++i) {
    const json::Value* const format = value.find(LayerHistory::format_names[i]);
    const auto member = [&](const char* name) {
      return format == nullptr ? unknown : number_or_nan(*format, name);
    };
    tensor.sqnr[i] = member("sqnr");
    tensor.underflow[i] = member("underflow");
    tensor.saturate[i] = member("saturate");
  }
  if (const json::Value* first = value.find("first_exponent"))
    tensor.first_exponent = first->integer(-2000, 2000);
  if (const json::Value* exponents = value.find("exponents")) {
    for (const json::Value& fraction : exponents->array())
      tensor.exponents.push_back(fraction.number());
  }
  return tensor;
}

ByModule parse_layers(const json::Value& root) {
  ByModule layers;
  for (const json::Value& entry : root.at("layers").array()) {
    LayerHistory::Layer& layer = layers[entry.at("module").string()];
    layer.harm = entry.at("harm").number();
    for (size_t i = 0; i < layer.tensors.size(); ++i)
      layer.tensors[i] = parse_tensor(entry.at(LayerHistory::tensor_names[i]));
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

std::string harm_map(const LayerHistory& history) {
  const std::vector<size_t> rows = most_harmed(history);
  HeatMap map{.title = "Harm of the recipe by layer over time",
              .steps = history.steps,
              .rows = {},
              .light = 1e-3,  // usual
              .dark = 1,
              .logarithmic = true,
              .style = format_style("fp8")};
  if (rows.size() < history.modules.size())
    map.title += fmt::format(", the {} most harmed of {}", rows.size(), history.modules.size());
  for (const size_t row : rows) {
    map.rows.push_back({history.modules[row], {}});
    for (const auto& layers : history.layers) map.rows.back().values.push_back(layers[row].harm);
  }
  return heat_map(map);
}

std::string magnitude_chart(const LayerHistory& history) {
  Series input{"inputs", {}, {.color = Style::ink}},
      weight{"weights", {}, {.color = Style::ink, .dash = 1}},
      gradient{"gradients", {}, {.color = Style::ink, .dash = 2}},
      f16{"largest f16", {}, format_style("f16")}, e4m3{"largest e4m3", {}, format_style("e4m3")};
  const auto largest = [](const std::vector<LayerHistory::Layer>& layers, size_t tensor) {
    double result = 0;
    for (const LayerHistory::Layer& layer : layers)
      result = std::max(result, layer.tensors[tensor].amax);
    return std::log2(result);
  };
  for (size_t i = 0; i < history.steps.size(); ++i) {
    const auto step = static_cast<double>(history.steps[i]);
    input.points.emplace_back(step, largest(history.layers[i], 0));
    weight.points.emplace_back(step, largest(history.layers[i], 1));
    gradient.points.emplace_back(step, largest(history.layers[i], 2));
    f16.points.emplace_back(step, std::log2(formats::spec::f16.max()));
    e4m3.points.emplace_back(step, std::log2(formats::spec::e4m3.max()));
  }
  return line_chart({"Largest magnitudes in linear layers", "step", "log2 of the magnitude"},
                    {input, weight, gradient, f16, e4m3});
}

}  // namespace

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

LayerHistory read_layer_history(const io::Path& path, int64_t* damaged) {
  if (!path.exists()) return {};
  const std::string text = io::read_text(path, history_reader, max_bytes);
  const std::vector<Line> lines = complete_lines(text);
  std::map<int64_t, ByModule> records;
  const size_t count = std::min(lines.size(), max_records);
  for (size_t i = 0; i < count; ++i) {
    // The first and the last line are always among them.
    const Line& line = lines[count == 1 ? 0 : i * (lines.size() - 1) / (count - 1)];
    try {
      const json::Document document =
          json::parse(line.text, {history_reader, path.string(), line.offset});
      io::check_checksum(line.text, path.string(), history_reader);
      const int64_t step = document.root().at("step").integer(0, int64_t{1} << 60);
      records[step] = parse_layers(document.root());
    } catch (const Error&) {
      if (damaged == nullptr) throw;
      ++*damaged;
    }
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
