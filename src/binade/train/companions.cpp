#include "binade/train/companions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "binade/base/json.h"
#include "binade/data/chat/examples.h"
#include "binade/train/config/component_options.h"
#include "binade/train/run/continuation.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* generation_config = "generation_config.json";

io::CompanionFiles given_companions(const Config& config) {
  io::CompanionFiles files;
  const fs::path model = config.model.init_from.empty()
                             ? fs::path()
                             : io::model_folder(config.model.init_from, "--init-from");
  if (!model.empty()) files = io::read_companions(model, "train");
  std::error_code ignored;
  if (config.data.tokenizer == data::byte_tokenizer || config.data.tokenizer == model.string())
    return files;
  fs::path folder = config.data.tokenizer;
  if (!fs::is_directory(folder, ignored)) {
    // A chat template was read beside the tokenizer's file, and a resumed run needs it again.
    if (!data::has_examples(config.data.source)) return files;
    folder = folder.parent_path();
  }
  io::CompanionFiles own = io::read_companions(folder, "train");
  own.erase(generation_config);
  if (const auto found = files.find(generation_config); found != files.end()) own.insert(*found);
  return own;
}

// The text of a generation_config.json with other ids that end a text.
std::string with_eos(const std::string& text, const std::vector<int64_t>& ids) {
  const std::string list = fmt::format("[{}]", fmt::join(ids, ", "));
  const json::Document document = json::parse(text, {.reader = "train", .file = generation_config});
  const json::Value* old = document.root().find("eos_token_id");
  if (old == nullptr) {
    const std::string_view rest = document.root().object().empty() ? "" : ", ";
    const size_t begin = text.find('{') + 1;
    return text.substr(0, begin) + fmt::format("\"eos_token_id\": {}{}", list, rest) +
           text.substr(begin);
  }
  const auto begin = static_cast<size_t>(old->offset());
  const size_t end =
      old->is_array() ? text.find(']', begin) + 1 : text.find_first_of(",} \t\r\n", begin);
  return text.substr(0, begin) + list + text.substr(end);
}

void add_chat_format(io::CompanionFiles& files, const Config& config,
                     const data::Tokenizer& tokenizer) {
  files["chat_template.jinja"] = data::jinja_of(*config.data.chat);
  const std::vector<int64_t> end = tokenizer.encode(
      data::chat_template_beside(config.data.tokenizer, config.data.chat)->answer_end);
  if (end.size() != 1) return;  // the tokenizer spells it out
  const std::string text = std::exchange(files[generation_config], {});
  const std::string known = text.empty() ? "{}" : text;
  std::vector<int64_t> ids = parse_eos_ids(known, generation_config, model_config(config));
  if (std::ranges::find(ids, end[0]) == ids.end()) ids.push_back(end[0]);
  files[generation_config] = with_eos(known, ids);
}

}  // namespace

io::CompanionFiles companions_of(const Config& config, const data::Tokenizer& tokenizer,
                                 const io::Path& run) {
  if (config.run.resume) return io::read_companions(run, "train");
  io::CompanionFiles files = given_companions(config);
  if (config.data.chat && data::has_examples(config.data.source))
    add_chat_format(files, config, tokenizer);
  return files;
}

}  // namespace binade::train
