#pragma once

#include "binade/base/function_ref.h"
#include "binade/base/json.h"
#include "binade/io/families/family.h"
#include "binade/io/path.h"

namespace binade::io {

// The family whose layout a model is saved in: the one it names, else the first that has all its
// options. Fails if there is none.
const Family& family_of(const nn::LanguageModelConfig& config);

// Writes bos_token_id, eos_token_id (a list if there are several) and pad_token_id, which is null.
// Null keeps readers from assuming the ids of the family.
void write_special_tokens(json::Writer& out, const nn::LanguageModelConfig& config);

// write_config() with further keys, which `write` adds.
void write_config_and(const Path& path, const nn::LanguageModelConfig& config, DType dtype,
                      FunctionRef<void(json::Writer& out)> write);

}  // namespace binade::io
