#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/base/random.h"
#include "binade/formats/format.h"
#include "binade/formats/table.h"
#include "binade/lab/range_chart.h"
#include "binade/train/report/svg.h"

namespace binade::lab {
namespace {

namespace spec = formats::spec;

// All positive numbers of a format of at most 16 bits, in increasing order.
template <const formats::Format& F>
std::vector<double> positive_numbers() {
  std::vector<double> numbers;
  for (uint64_t code = 0; code <= F.max_code(); ++code) {
    const double value = formats::decode<F>(static_cast<uint32_t>(code));
    if (value > 0) numbers.push_back(value);
  }
  return numbers;
}

// The largest relative rounding error over many random numbers between min normal and max.
template <const formats::Format& F>
double worst_rounding() {
  double worst = 0;
  const double span = std::log2(F.max() / F.min_normal());
  for (uint64_t i = 0; i < 20000; ++i) {
    const auto x =
        static_cast<float>(F.min_normal() * std::exp2(random::uniform(1, 1, i) * 0.999 * span));
    const double rounded = formats::decode<F>(formats::encode<F>(x));
    worst = std::max(worst, std::abs(rounded - x) / x);
  }
  return worst;
}

template <const formats::Format& F>
FormatsResult::Format measure() {
  const std::vector<double> numbers = positive_numbers<F>();
  FormatsResult::Format one{.name = F.name, .largest = numbers.back(), .smallest = numbers.front()};
  one.positive = static_cast<int64_t>(numbers.size());
  for (const double value : numbers) one.between_one_and_two += value >= 1 && value < 2;
  one.worst_rounding = worst_rounding<F>();
  return one;
}

// A figure of the numbers of the 8-bit and 4-bit formats from 0 to 4, one tick each.
std::string number_line() {
  const std::pair<const char*, std::vector<double>> lines[] = {
      {"e5m2", positive_numbers<spec::e5m2>()},
      {"e4m3", positive_numbers<spec::e4m3>()},
      {"e2m1", positive_numbers<spec::e2m1>()}};
  constexpr double left = 52, scale = 99;
  std::string svg =
      train::svg::open_figure("All numbers from 0 to 4; the spacing doubles in each binade", 150);
  double y = 14;
  for (const auto& [name, numbers] : lines) {
    svg += fmt::format("<text class=\"label\" x=\"0\" y=\"{}\">{}</text>", y + 16, name);
    svg += fmt::format("<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>", left,
                       left + 4 * scale, y + 24);
    for (const double value : numbers) {
      if (value <= 4)
        svg += fmt::format(
            "<line class=\"{0}\" x1=\"{1:.1f}\" x2=\"{1:.1f}\" y1=\"{2}\" "
            "y2=\"{3}\"/>",
            train::svg::line_class(train::format_style(name)), left + value * scale, y, y + 24);
    }
    y += 40;
  }
  for (int i = 0; i <= 4; ++i)
    svg += fmt::format("<text class=\"tick\" text-anchor=\"middle\" x=\"{}\" y=\"146\">{}</text>",
                       left + i * scale, i);
  return svg + train::svg::close_figure;
}

// A figure of the bits of each format, one box each.
std::string bit_layouts() {
  constexpr double left = 62, box = 12, row = 20;
  std::string svg = train::svg::open_figure(
      "The bits of each format", row * static_cast<double>(std::size(formats::all)) + 40);
  const char* const areas[] = {"n0", "n1", "n2"};
  const train::svg::Legend legend = train::svg::legend(
      {{"sign", "", areas[0]}, {"exponent", "", areas[1]}, {"mantissa", "", areas[2]}}, left);
  svg += legend.svg;
  double y = legend.bottom;
  for (const formats::Format* format : formats::all) {
    svg += train::svg::text("label", "start", 0, y + 12, format->name);
    const int counts[] = {format->is_signed() ? 1 : 0, format->exponent_bits,
                          format->mantissa_bits};
    double x = left;
    for (size_t field = 0; field < std::size(counts); ++field) {
      for (int bit = 0; bit < counts[field]; ++bit, x += box)
        svg += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"14\"/>",
                           areas[field], x, y, box - 2);
    }
    y += row;
  }
  return svg + train::svg::close_figure;
}

}  // namespace

FormatsResult formats_experiment(ExperimentReport& report) {
  FormatsResult result{{measure<spec::f16>(), measure<spec::bf16>(), measure<spec::e4m3>(),
                        measure<spec::e4m3fnuz>(), measure<spec::e5m2>()}};
  report.add_paragraph(
      "A format divides its bits between range (exponent) and precision (mantissa). To show the "
      "result, this experiment decodes every code of each format.");
  std::vector<std::vector<std::string>> rows;
  for (const FormatsResult::Format& one : result.formats) {
    rows.push_back({one.name, fmt::format("{:.5g}", one.largest),
                    fmt::format("{:.3g}", one.smallest), fmt::format("{}", one.positive),
                    fmt::format("{}", one.between_one_and_two),
                    fmt::format("{:.3f}%", 100 * one.worst_rounding)});
  }
  report.add_table({"format", "largest", "smallest", "numbers > 0", "in [1, 2)", "rounding"}, rows);
  report.add_figure(
      range_chart("The range of each format; faint: subnormal numbers, which have fewer bits",
                  format_ranges()));
  report.add_figure(bit_layouts());
  report.add_figure(number_line());
  report.add_preformatted(formats::layout_text());
  report.add_conclusion(fmt::format(
      "f16 and bf16 have the same number of bits, but bf16 has {:.0f} binades more. The two maxima "
      "quoted for E4M3, 448 and 240, belong to two formats. f16 reaches down to 6e-8, its smallest "
      "subnormal number; 6e-5 is its smallest normal one, below which precision decreases.",
      std::log2(formats::spec::bf16.max() / formats::spec::bf16.min_subnormal()) -
          std::log2(formats::spec::f16.max() / formats::spec::f16.min_subnormal())));
  return result;
}

}  // namespace binade::lab
