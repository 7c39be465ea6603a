#include "binade/version.h"

namespace binade {

const char* version() { return BINADE_VERSION; }

}  // namespace binade
