#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace binade::train {

// A whole number in its entirety, also as 1e3 or 2.5e4; none if it is another text.
std::optional<int64_t> parse_whole(std::string_view text);

// A number in its entirety; none if it is another text. It may be infinite or NaN.
std::optional<double> parse_real(std::string_view text);

// As TOML writes it: "1000.0".
std::string real_text(double number);

}  // namespace binade::train
