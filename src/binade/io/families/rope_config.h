#pragma once

#include "binade/base/json.h"
#include "binade/io/families/family.h"

// Rotary settings in config.json. Older files have rope_theta and rope_scaling, newer ones
// rope_parameters; Binade reads both and writes both, since each version ignores the other form.
namespace binade::io {

void read_rope(const json::Value& root, const Family& family, nn::LanguageModelConfig& config);
void write_rope(json::Writer& out, const Family& family, const nn::LanguageModelConfig& config);

}  // namespace binade::io
