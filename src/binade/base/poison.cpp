#include "binade/base/poison.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "binade/base/error.h"

namespace binade {
namespace {

Poison from_environment() {
  const char* given = std::getenv("BINADE_POISON");
  const std::string_view text = given == nullptr ? "" : given;
  if (text.empty()) return Poison::none;
  if (text == "fill") return Poison::fill;
  if (text == "guard") return Poison::guard;
  fail("poison", {.argument = "BINADE_POISON", .expected = "fill or guard", .found = given});
}

std::atomic<Poison>& mode() {
  static std::atomic<Poison> current = from_environment();
  return current;
}

}  // namespace

Poison poison() { return mode().load(std::memory_order_relaxed); }
void set_poison(Poison value) { mode().store(value, std::memory_order_relaxed); }

void fill_with_poison(void* block, size_t bytes) {
  if (bytes > 0) std::memset(block, poison_byte, bytes);
}

}  // namespace binade
