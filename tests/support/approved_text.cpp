#include "support/approved_text.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace binade::test {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// A number at the start of a text, such as "1,024", "0.25" or "1e-07".
struct ShownNumber {
  explicit ShownNumber(const std::string& text) {
    std::string digits;
    for (; length < text.size() && (is_digit(text[length]) || text[length] == ','); ++length)
      if (text[length] != ',') digits += text[length];
    if (length < text.size() && text[length] == '.') {
      for (digits += text[length++]; length < text.size() && is_digit(text[length]); ++length) {
        digits += text[length];
        last_digit /= 10;
      }
    }
    char* end = nullptr;
    const std::string exponent = text.substr(length);
    if (exponent.size() > 2 && exponent[0] == 'e') {
      power = std::strtol(exponent.c_str() + 1, &end, 10);
      length += static_cast<size_t>(end - exponent.c_str());
    }
    value = std::strtod(digits.c_str(), nullptr) * std::pow(10, power);
    last_digit *= std::pow(10, power);
  }

  size_t length = 0;
  long power = 0;
  double value = 0, last_digit = 1;
};

bool are_alike(std::string one, std::string other, double tolerance) {
  while (!one.empty() && !other.empty()) {
    if (is_digit(one[0]) && is_digit(other[0])) {
      const ShownNumber a(one), b(other);
      const double allowed = tolerance * std::max(a.value, b.value) +
                             (tolerance > 0 ? std::max(a.last_digit, b.last_digit) : 0);
      if (std::abs(a.value - b.value) > allowed * (1 + 1e-9)) return false;
      one.erase(0, a.length);
      other.erase(0, b.length);
    } else {
      if (one[0] != other[0]) return false;
      one.erase(0, 1);
      other.erase(0, 1);
    }
  }
  return one.empty() && other.empty();
}

}  // namespace

std::string difference_from_approved(const std::string& text, const std::string& approved,
                                     double tolerance) {
  const std::vector<std::string> found = words_of(text), expected = words_of(approved);
  for (size_t i = 0; i < std::max(found.size(), expected.size()); ++i) {
    const std::string one = i < found.size() ? found[i] : "(the end)",
                      other = i < expected.size() ? expected[i] : "(the end)";
    if (are_alike(one, other, tolerance)) continue;
    std::string before;
    for (size_t j = i < 5 ? 0 : i - 5; j < i; ++j) before += expected[j] + " ";
    return "after \"" + before + "\": expected \"" + other + "\", found \"" + one + "\"";
  }
  return {};
}

}  // namespace binade::test
