#include "chart.h"

#include <cstdio>
#include <fstream>

namespace {

constexpr int width = 640, height = 320, left = 48, top = 36, right = 16, bottom = 36;

double y_of(double reward) { return top + (1 - reward) * (height - top - bottom); }

}  // namespace

void write_chart(const std::string& path, const std::string& title,
                 const std::vector<double>& rewards) {
  std::ofstream out(path);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << "<text x=\"" << left << "\" y=\"20\" font-size=\"14\">" << title << "</text>\n";
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double y = y_of(tenth / 10.0);
    out << "<line x1=\"" << left << "\" x2=\"" << width - right << "\" y1=\"" << y << "\" y2=\""
        << y << "\" stroke=\"#ddd\"/><text x=\"" << left - 30 << "\" y=\"" << y + 4 << "\">"
        << tenth / 10.0 << "</text>\n";
  }
  out << "<polyline fill=\"none\" stroke=\"#06c\" stroke-width=\"1.5\" points=\"";
  for (size_t i = 0; i < rewards.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(rewards.size());
    out << left + share * (width - left - right) << "," << y_of(rewards[i]) << " ";
  }
  out << "\"/>\n<text x=\"" << width - right - 80 << "\" y=\"" << height - 10 << "\">step "
      << rewards.size() << "</text>\n</svg>\n";
  out.close();
  if (!out) std::fprintf(stderr, "cannot write %s\n", path.c_str());
}
