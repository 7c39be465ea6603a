#pragma once

#include <string>
#include <vector>

// The mean reward of each step as an SVG file.
void write_chart(const std::string& path, const std::string& title,
                 const std::vector<double>& rewards);
