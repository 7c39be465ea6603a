#pragma once

#include <string>
#include <string_view>

#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/pipeline.h"

namespace binade::data {

struct TokenizerJson {
  PipelineParts parts;
  TemplateIds template_ids;
};

// Reads a tokenizer.json; `name` stands for the file in messages.
TokenizerJson read_tokenizer_json(std::string_view text, const std::string& name);

}  // namespace binade::data
