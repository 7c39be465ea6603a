#pragma once

#include <string>

namespace binade::train {

// A self-contained HTML page: no script, light and dark, for wide and narrow screens. `body` is
// HTML, `title` is plain text. Its style sheet colors charts: .s0 to .s7 for lines, .f0 to .f7 for
// areas.
std::string page(const std::string& title, const std::string& body);

// One number with its name, for a <dl>. Both are plain text.
std::string tile(const std::string& name, const std::string& value);

}  // namespace binade::train
