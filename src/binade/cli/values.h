#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>

// Checks of options' values. They refuse a text in the style of every error, as it was typed:
// "expected a whole number from 1 to 4096, found 'x'".
namespace binade::cli {

// Numbers such as 1e3 are whole, too, and written out for CLI11: for Option::transform(). Ranges
// include both ends.
CLI::Validator whole_number();
CLI::Validator whole_number(int64_t low, int64_t high);
CLI::Validator real_number();
CLI::Validator real_number(double low, double high);
CLI::Validator one_of(std::initializer_list<std::string> names);

}  // namespace binade::cli
