#pragma once

// The version of these headers; CMake reads it from here. Before 1.0 a minor release may change the
// interface, a patch may not.
#define BINADE_VERSION_MAJOR 0
#define BINADE_VERSION_MINOR 1
#define BINADE_VERSION_PATCH 0
#define BINADE_VERSION "0.1.0"

namespace binade {

// The version of the library that the program is linked with, such as "0.1.0".
const char* version();

}  // namespace binade
