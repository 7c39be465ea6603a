#include "from_libtorch/spellings.h"

// Every row as a function. Rows use what they need of the tensors given.
#define SPELLING(text, expected, ...)                                                            \
  {text, expected, [](Given& given) -> Shown {                                                   \
     [[maybe_unused]] auto& [x, y, w, A, v, i, q, m, logits, labels, img, kernel, path] = given; \
     __VA_ARGS__                                                                                 \
   }},
#define OTHER(text)

namespace binade::spellings {

std::vector<Row> rows() {
  return {
#include "from_libtorch/spellings.inc"
  };
}

std::vector<Row> unseen_rows() {
  return {
#include "from_libtorch/unseen_spellings.inc"
  };
}

#undef SPELLING
#undef OTHER
#define SPELLING(...)
#define OTHER(text) text,

std::vector<const char*> others() {
  return {
#include "from_libtorch/spellings.inc"
  };
}

std::vector<const char*> second_others() {
  return {
#include "from_libtorch/second_spellings.inc"
  };
}

std::vector<const char*> unseen_others() {
  return {
#include "from_libtorch/unseen_spellings.inc"
  };
}

}  // namespace binade::spellings
