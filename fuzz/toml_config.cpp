#include <cstdlib>

#include "binade/base/error.h"
#include "binade/train/config/config.h"

// A text is refused, or it is a configuration that is saved and read again as the same one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace binade::train;
  Config config;
  try {
    config = resolve_text({reinterpret_cast<const char*>(data), size}, "input.toml");
  } catch (const binade::Error&) {
    return 0;
  }
  if (config.resume || config.dry_run) return 0;  // of the command line alone: not saved
  if (resolve_text(to_toml(config), "again.toml") != config) std::abort();
  return 0;
}
