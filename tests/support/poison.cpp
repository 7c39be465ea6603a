#include "binade/base/poison.h"

// Every test starts from memory full of NaNs, unless the environment asks for more.
namespace binade::test {
namespace {

const bool poisoned = [] {
  if (poison() == Poison::none) set_poison(Poison::fill);
  return true;
}();

}  // namespace
}  // namespace binade::test
