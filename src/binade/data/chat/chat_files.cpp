#include "binade/data/chat/chat_files.h"

#include <optional>
#include <system_error>
#include <utility>

#include "binade/base/json.h"
#include "binade/io/file.h"
#include "binade/io/gguf/file.h"
#include "binade/io/model_folder.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* files_reader = "chat";
constexpr int64_t max_template_file = int64_t{64} << 20;

std::string special_token(const json::Value& root, const char* name) {
  const json::Value* found = root.find(name);
  if (found == nullptr || found->is_null()) return {};
  return found->is_object() ? found->at("content").string() : found->string();
}

// The member chat_template: a text, or a list of templates for several uses, of which transformers
// takes the one called "default".
const json::Value* default_template(const json::Value& root) {
  const json::Value* found = root.find("chat_template");
  if (found == nullptr || !found->is_array()) return found;
  for (const json::Value& one : found->array()) {
    if (one.at("name").string() == "default") return &one.at("template");
  }
  return nullptr;
}

}  // namespace

ChatFiles read_chat_files(const fs::path& folder) {
  const fs::path config = folder / "tokenizer_config.json", own = folder / "chat_template.jinja";
  const io::CompanionFiles in_gguf =
      io::gguf::is_gguf(folder) ? io::read_companions(folder, files_reader) : io::CompanionFiles();
  const auto text_of = [&](const fs::path& path) -> std::optional<std::string> {
    if (const auto found = in_gguf.find(path.filename().string()); found != in_gguf.end())
      return found->second;
    std::error_code ignored;  // reading reports what is wrong
    if (!fs::exists(path, ignored)) return {};
    return io::read_text(path, files_reader, max_template_file);
  };
  ChatFiles files{.source = own.string()};
  if (const auto text = text_of(config)) {
    const json::Document document = json::parse(*text, {files_reader, config.string()});
    const json::Value& root = document.root();
    files.tokens = {special_token(root, "bos_token"), special_token(root, "eos_token")};
    if (const json::Value* found = default_template(root); found && found->is_string()) {
      files.jinja = found->string();
      files.source = config.string() + ", chat_template";
    }
  }
  if (auto text = text_of(own)) {
    files.jinja = std::move(*text);
    files.source = own.string();
  }
  return files;
}

}  // namespace binade::data
