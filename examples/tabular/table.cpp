#include "table.h"

#include <binade/binade.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numbers>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace {

// The cells of a line; spaces, quotes and a carriage return around them are dropped.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> result;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) {
    const size_t begin = cell.find_first_not_of(" \t\r\""), end = cell.find_last_not_of(" \t\r\"");
    result.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return result;
}

// The position of a cell or line in messages.
std::string place(const std::filesystem::path& file, size_t line) {
  return file.string() + ", line " + std::to_string(line);
}

double number(const std::string& cell, const std::string& where) {
  double value = 0;
  const char* end = cell.data() + cell.size();
  const auto result = std::from_chars(cell.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value))
    throw std::runtime_error(where + ": expected a finite number, found '" + cell + "'");
  return value;
}

}  // namespace

size_t Table::column(const std::string& name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw std::runtime_error("there is no column '" + name + "'");
  return static_cast<size_t>(found - names.begin());
}

Table read_csv(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + ": cannot be opened");
  Table table;
  std::string line;
  std::getline(in, line);
  table.names = cells(line);
  for (size_t count = 2; std::getline(in, line); ++count) {
    if (line.find_first_not_of(" \r") == std::string::npos) continue;  // many files end so
    const std::vector<std::string> row = cells(line);
    if (row.size() != table.names.size()) {
      throw std::runtime_error(place(file, count) + ": expected " +
                               std::to_string(table.names.size()) + " cells, found " +
                               std::to_string(row.size()));
    }
    std::vector<double> numbers;
    for (const std::string& cell : row) numbers.push_back(number(cell, place(file, count)));
    table.rows.push_back(numbers);
  }
  return table;
}

void generate_csv(const std::filesystem::path& file, int rows) {
  constexpr uint64_t seed = 1991;
  // Units: what a column's numbers are multiplied by.
  constexpr std::array<double, 10> units = {1, 1e3, 1e-2, 50, 1, 1e6, 1, 0.1, 3, 200};
  std::ofstream out(file);
  for (size_t i = 0; i < units.size(); ++i) out << "x" << i << ",";
  out << "y\n";
  for (int row = 0; row < rows; ++row) {
    const auto stream = static_cast<uint64_t>(row);
    std::array<double, units.size()> x{};
    for (size_t i = 0; i < x.size(); ++i) x[i] = binade::random::uniform(seed, stream, i);
    const double noise = binade::random::normal(seed, stream, 100);
    const double y = 10 * std::sin(std::numbers::pi * x[0] * x[1]) +
                     20 * (x[2] - 0.5) * (x[2] - 0.5) + 10 * x[3] + 5 * x[4] + noise;
    for (size_t i = 0; i < x.size(); ++i) out << x[i] * units[i] << ",";
    out << y << "\n";
  }
  out.close();
  if (!out) throw std::runtime_error(file.string() + ": cannot be written");
}
