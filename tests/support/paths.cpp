#include "support/paths.h"

namespace binade::test {

std::filesystem::path source_dir() { return BINADE_SOURCE_DIR; }

std::string golden_dir() { return (source_dir() / "tests/golden").string(); }

}  // namespace binade::test
