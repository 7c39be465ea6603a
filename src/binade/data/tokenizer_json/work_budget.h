#pragma once

#include <cstddef>
#include <string>

#include "binade/base/error.h"

namespace binade::data {

// The steps that encoding one text may take: a multiple of its length, shared by all patterns and
// searches, so that no tokenizer.json makes the time grow faster than the text.
class WorkBudget {
 public:
  explicit WorkBudget(size_t bytes = 0)
      : bytes_(bytes), total_(steps_per_text + steps_per_byte * bytes), left_(total_) {}

  // Fails if fewer steps are left; `worker()` is the text that names what takes them.
  template <class Name>
  void spend(size_t steps, Name&& worker) {
    if (steps > left_) refuse(worker());
    left_ -= steps;
  }

 private:
  // Real tokenizers take less than a tenth of this.
  static constexpr size_t steps_per_byte = 512, steps_per_text = 4'000'000;

  [[noreturn]] void refuse(std::string worker) const {
    fail("tokenizer", {.argument = std::move(worker),
                       .expected = "at most " + std::to_string(total_) + " steps for " +
                                   std::to_string(bytes_) + " bytes of text",
                       .found = "more",
                       .hint = "the text or the tokenizer is not made for the other"});
  }

  size_t bytes_, total_, left_;
};

}  // namespace binade::data
