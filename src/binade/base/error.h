#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace binade {

// The facts of an error. The message leaves out empty fields.
struct Facts {
  std::string argument = {};  // the argument, file or key at fault
  std::string expected = {};  // the valid values
  std::string found = {};     // the actual value
  std::string hint = {};      // a way to fix it
  std::string details = {};   // further lines below the message, such as a table
};

// The exception Binade throws for bad input or misuse. what() reads "linear: weight: expected [8,
// 4], found [4, 8] f32; hint": one line, then the lines of `details`. Facts may quote untrusted
// bytes; the message escapes them with visible().
class Error : public std::runtime_error {
 public:
  Error(std::string_view op, Facts facts);

  const std::string& op() const { return op_; }
  const Facts& facts() const { return facts_; }

 private:
  std::string op_;
  Facts facts_;
};

// Throws an Error. Call it inside an `if`, so that facts are formatted only on failure.
[[noreturn]] void fail(std::string_view op, Facts facts);

}  // namespace binade
