#pragma once

#include "binade/io/gguf/architecture.h"
#include "binade/io/gguf/file.h"

namespace binade::io::gguf {

// The architecture of a file. Fails for files of something else than a model, and for architectures
// that Binade does not have.
const Architecture& architecture_of(const File& file);

}  // namespace binade::io::gguf
