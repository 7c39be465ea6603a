#pragma once

#include <filesystem>
#include <string>
#include <vector>

// Rows of numbers with named columns.
struct Table {
  std::vector<std::string> names;
  std::vector<std::vector<double>> rows;

  // The index of a named column. Throws if there is none.
  size_t column(const std::string& name) const;
};

// Reads a CSV file: a line of names, then lines of as many numbers.
Table read_csv(const std::filesystem::path& file);

// Writes Friedman's first regression problem (1991) as a CSV file: y = 10 sin(pi a b) +
// 20 (c - 0.5)^2 + 10 d + 5 e + noise of deviation 1. All columns have units of their own, and five
// more have no effect.
void generate_csv(const std::filesystem::path& file, int rows);
