#include "binade/backend/cuda/tuning.h"

#include <cstdlib>
#include <string>

#include "binade/base/error.h"

namespace binade::backend::cuda {

Tuning parse_tuning(const char* text) {
  const std::string value = text == nullptr ? "1" : text;
  if (value == "0") return Tuning::off;
  if (value == "1") return Tuning::brief;
  if (value == "sustained") return Tuning::sustained;
  fail("tuning", {.argument = "BINADE_TUNE", .expected = "0, 1 or sustained", .found = value});
}

Tuning tuning() {
  static const Tuning of_process = parse_tuning(std::getenv("BINADE_TUNE"));
  return of_process;
}

}  // namespace binade::backend::cuda
