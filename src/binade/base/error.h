#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace binade {

// What an error knows. Every field may be empty; the message leaves empty ones out.
struct Facts {
  std::string argument = {};  // which argument, file or key
  std::string expected = {};  // what would have been right
  std::string found = {};     // what was there instead
  std::string hint = {};      // what to do about it
  std::string below = {};     // lines that follow the message: a table
};

// The one exception Binade throws for bad input or misuse.
// what() reads "linear: weight: expected [8, 4], found [4, 8] f32; hint": one line, but for those
// below it. Facts may quote any bytes; what a terminal would obey is there as visible() writes it.
class Error : public std::runtime_error {
 public:
  Error(std::string_view op, Facts facts);

  const std::string& op() const { return op_; }
  const Facts& facts() const { return facts_; }

 private:
  std::string op_;
  Facts facts_;
};

// Throws an Error. Call it under an `if`, so that facts are only put into words when needed.
[[noreturn]] void fail(std::string_view op, Facts facts);

}  // namespace binade
