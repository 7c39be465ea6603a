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

// The template of a name in the member chat_template: a text, which is "default", or a list of
// templates for several uses, of which transformers takes "tool_use" if there are tools.
std::string named_template(const json::Value& root, std::string_view name) {
  const json::Value* found = root.find("chat_template");
  if (found == nullptr || found->is_null()) return {};
  if (found->is_string()) return name == "default" ? found->string() : "";
  for (const json::Value& one : found->array()) {
    if (one.at("name").string() == name) return one.at("template").string();
  }
  return {};
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
    files.tokens = {special_token(root, "bos_token"), special_token(root, "eos_token"), {}};
    for (const char* name : {"unk_token", "pad_token", "sep_token", "cls_token", "mask_token"}) {
      if (std::string text = special_token(root, name); !text.empty())
        files.tokens.others.emplace_back(name, std::move(text));
    }
    files.jinja = named_template(root, "default");
    files.tool_jinja = named_template(root, "tool_use");
    if (!files.jinja.empty()) files.source = config.string() + ", chat_template";
  }
  if (auto text = text_of(own)) {
    files.jinja = std::move(*text);
    files.tool_jinja.clear();
    files.source = own.string();
  }
  return files;
}

}  // namespace binade::data
