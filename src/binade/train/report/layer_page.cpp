#include "binade/train/report/layer_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "binade/train/report/heat_map.h"
#include "binade/train/report/html_page.h"

namespace binade::train {
namespace {

using LayerTensor = LayerHistory::Tensor;
using TensorValue = std::function<double(const LayerTensor&)>;

// Indices of LayerHistory::format_names.
constexpr size_t f16_index = 0, e4m3_index = 2;
// Binades of a chart: more than f16 and e4m3 span together.
constexpr int64_t max_binades = 60;

// One tensor (by index) of all layers over time.
struct TensorStudy {
  const LayerHistory& history;
  size_t tensor;
  std::string name;  // "inputs"

  HeatMap by_layer(const std::string& title, const TensorValue& value) const {
    HeatMap map{.title = title, .steps = history.steps, .rows = {}};
    for (const size_t row : most_harmed(history)) {
      map.rows.push_back({history.modules[row], {}});
      for (const auto& layers : history.layers)
        map.rows.back().values.push_back(value(layers[row].tensors[tensor]));
    }
    return map;
  }

  // The smallest or largest value of any layer.
  Series extreme(std::string of, bool largest, Style style, const TensorValue& value) const {
    Series series{std::move(of), {}, style};
    for (size_t i = 0; i < history.steps.size(); ++i) {
      double result = std::numeric_limits<double>::quiet_NaN();
      for (const LayerHistory::Layer& layer : history.layers[i]) {
        const double one = value(layer.tensors[tensor]);
        if (std::isnan(result) || (largest ? one > result : one < result)) result = one;
      }
      series.points.emplace_back(static_cast<double>(history.steps[i]), result);
    }
    return series;
  }
};

// A tensor without noise, which has the format already, would flatten the others' curves.
double visible_sqnr(double decibels) {
  constexpr double without_noise = 100;  // more than rounding to any of the formats leaves
  return decibels < without_noise ? decibels : std::numeric_limits<double>::quiet_NaN();
}

std::string sqnr_charts(const TensorStudy& study) {
  std::vector<Series> lowest;
  std::string exact;  // formats that hold every value
  for (size_t i = 0; i < LayerHistory::formats; ++i) {
    const char* format = LayerHistory::format_names[i];
    Series series = study.extreme(format, false, format_style(format),
                                  [i](const LayerTensor& x) { return visible_sqnr(x.sqnr[i]); });
    const bool has_noise = std::any_of(series.points.begin(), series.points.end(),
                                       [](const auto& x) { return std::isfinite(x.second); });
    if (has_noise)
      lowest.push_back(std::move(series));
    else
      exact += (exact.empty() ? "; exact in " : ", ") + std::string(format);
  }
  HeatMap map = study.by_layer("SQNR of " + study.name + " in e4m3 by layer, dB",
                               [](const LayerTensor& x) { return x.sqnr[e4m3_index]; });
  map.light = 32;  // of a tensor that fits e4m3
  map.dark = 0;    // as much noise as signal
  map.unit = "dB";
  map.style = format_style("e4m3");
  return line_chart({"Lowest SQNR of " + study.name + " in any layer" + exact, "step", "dB"},
                    lowest) +
         heat_map(map);
}

std::string shares_chart(const TensorStudy& study) {
  const auto percent = [&](const char* name, Style style, const TensorValue& value) {
    return study.extreme(name, true, style,
                         [&value](const LayerTensor& x) { return 100 * value(x); });
  };
  return line_chart(
      {"Largest share of " + study.name + " out of range in any layer", "step", "% of elements"},
      {percent("zeros", {.color = Style::ink}, [](const LayerTensor& x) { return x.zeros; }),
       percent("underflow in f16", format_style("f16"),
               [](const LayerTensor& x) { return x.underflow[f16_index]; }),
       percent("saturated in f16", format_style("f16", 1),
               [](const LayerTensor& x) { return x.saturate[f16_index]; }),
       percent("underflow in e4m3", format_style("e4m3"),
               [](const LayerTensor& x) { return x.underflow[e4m3_index]; }),
       percent("saturated in e4m3", format_style("e4m3", 1),
               [](const LayerTensor& x) { return x.saturate[e4m3_index]; })});
}

std::string outlier_map(const TensorStudy& study) {
  HeatMap map = study.by_layer("Channels of " + study.name + " with outliers, %",
                               [](const LayerTensor& x) { return 100 * x.outliers; });
  map.dark = 10;
  map.unit = "%";
  map.style = {.color = Style::ink};
  return heat_map(map);
}

// Mean over layers, by exponent and step.
std::string exponent_map(const TensorStudy& study) {
  const size_t steps = study.history.steps.size();
  std::map<int64_t, std::vector<double>> fractions;
  for (size_t i = 0; i < steps; ++i) {
    const auto& layers = study.history.layers[i];
    for (const LayerHistory::Layer& layer : layers) {
      const LayerTensor& tensor = layer.tensors[study.tensor];
      for (size_t j = 0; j < tensor.exponents.size(); ++j) {
        auto& row = fractions[tensor.first_exponent + static_cast<int64_t>(j)];
        row.resize(steps, std::numeric_limits<double>::quiet_NaN());
        row[i] = (std::isnan(row[i]) ? 0 : row[i]) +
                 tensor.exponents[j] / static_cast<double>(layers.size());
      }
    }
  }
  if (fractions.empty()) return "";
  HeatMap map{.title = "Exponents of " + study.name + ", share of elements, mean over layers",
              .steps = study.history.steps,
              .rows = {},
              .light = 1e-4,
              .dark = 1,
              .logarithmic = true,
              .style = {.color = Style::ink},
              .row_height = 8,
              .shows_last = false};
  const int64_t top = fractions.rbegin()->first;
  for (int64_t exponent = top;
       exponent >= std::max(fractions.begin()->first, top - max_binades + 1); --exponent) {
    const auto found = fractions.find(exponent);
    map.rows.push_back({exponent % 4 == 0 ? fmt::format("2^{}", exponent) : "",
                        found == fractions.end() ? std::vector<double>() : found->second});
  }
  return heat_map(map);
}

}  // namespace

std::string layer_page(const LayerHistory& history, const std::string& title,
                       const std::string& facts) {
  std::string html = facts;
  if (!history.steps.empty())
    html += fmt::format(
        "<p>{} linear layers in {} steps with statistics, from step {} to {}.</p>\n",
        history.modules.size(), history.steps.size(), history.steps.front(), history.steps.back());
  const char* const names[] = {"inputs", "weights", "gradients"};
  for (size_t i = 0; i < std::size(names); ++i) {
    const TensorStudy study{history, i, names[i]};
    std::string heading = names[i];
    heading[0] = static_cast<char>(heading[0] - 'a' + 'A');
    html += "<h2>" + heading + "</h2>\n<main>\n" + sqnr_charts(study) + exponent_map(study) +
            shares_chart(study) + outlier_map(study) + "</main>\n";
  }
  return page(title, html);
}

}  // namespace binade::train
