#pragma once

#include <filesystem>
#include <string>

namespace binade::test {

// The root of the sources that the tests were built from.
std::filesystem::path source_dir();

// tests/golden of those sources, without a slash at its end.
std::string golden_dir();

}  // namespace binade::test
