#pragma once

#include <string>

namespace binade::train {

// A whole page around `body` that needs nothing but itself: light and dark, wide and narrow. Charts
// take their colours from its style sheet: .s0 to .s7 for lines, .f0 to .f7 for areas.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace binade::train
