#include "from_libtorch/spellings.h"

// Each row of the second sample as a function, beside spellings.cpp for the compiler's memory.
#define SECOND_SPELLING(text, expected, ...)                                                     \
  {text, expected, [](Given& given) -> Shown {                                                   \
     [[maybe_unused]] auto& [x, y, w, A, v, i, q, m, logits, labels, img, kernel, path] = given; \
     __VA_ARGS__                                                                                 \
   }},
#pragma push_macro("SPELLING")
#pragma push_macro("OTHER")
#undef SPELLING
#undef OTHER
#define SPELLING SECOND_SPELLING
#define OTHER(text)

namespace binade::spellings {

std::vector<Row> second_rows() {
  return {
#include "from_libtorch/second_spellings.inc"
  };
}

}  // namespace binade::spellings

#undef SECOND_SPELLING
#pragma pop_macro("SPELLING")
#pragma pop_macro("OTHER")
