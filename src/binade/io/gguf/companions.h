#pragma once

#include "binade/io/gguf/file.h"
#include "binade/io/model_folder.h"

namespace binade::io::gguf {

// The files that stand beside a model's in a folder, made of a file's keys: its chat template, and
// the texts of its special tokens for transformers.
CompanionFiles companions_of(const File& file);

}  // namespace binade::io::gguf
