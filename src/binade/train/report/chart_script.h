#pragma once

#include <string_view>

namespace binade::train {

// Script for the line charts of a page (chart.h), which are complete without it: values under the
// pointer, zoom by dragging, a logarithmic axis, and names in the legend that hide their curves.
//
// It reads from a chart: of g.plot, data-x and data-y (ends of the axes), data-frame (left, top and
// bottom edge), data-label (of x) and data-zero (whether y begins at 0); of a curve, data-name and
// data-points, "x,y x,y;x,y" with a ";" at each gap; of the band, data-band, "x,low,high ...".
extern const std::string_view chart_script;

}  // namespace binade::train
