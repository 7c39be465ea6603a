#pragma once

#include <filesystem>
#include <string>

#include "binade/data/chat/chat_template.h"

namespace binade::data {

// What a model's folder, or its GGUF file, says of conversations, as it stands there.
struct ChatFiles {
  SpecialTokens tokens = {};
  std::string jinja = {};       // empty: no template
  std::string tool_jinja = {};  // the template for conversations with tools; empty: the same
  std::string source = {};      // the file of the template, for messages
};
ChatFiles read_chat_files(const std::filesystem::path& folder);

}  // namespace binade::data
