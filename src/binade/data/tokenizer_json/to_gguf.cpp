#include "binade/data/tokenizer_json/to_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/sentencepiece_model.h"
#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/byte_level.h"
#include "binade/data/tokenizer_json/read_parts.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"
#include "binade/data/tokenizer_json/write.h"
#include "binade/io/gguf/companions.h"
#include "binade/io/model_folder.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

using json::Value;
using Type = SentencePieceContents::Type;

constexpr const char* gguf_writer = "export";
constexpr std::string_view space_mark =
    "\xE2\x96\x81";  // U+2581, which stands for a space in pieces

// What the keys say.
struct GgufContents {
  std::string model, pre;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores = {};        // of SentencePiece's models
  std::vector<std::string> merges = {};  // of byte-level BPE
  std::optional<bool> add_space_prefix = {};
};

[[noreturn]] void refuse_tokenizer(const std::string& part, const std::string& found) {
  fail(gguf_writer, {.argument = part,
                     .expected = "one that llama.cpp has a name for",
                     .found = found,
                     .hint = "export the model as a folder of Hugging Face's"});
}

// The steps of a part: itself, or those of a Sequence; none of null.
std::vector<const Value*> steps_of(const Value& root, std::string_view name,
                                   std::string_view items) {
  const Value* part = optional_member(root, name);
  if (part == nullptr) return {};
  if (part->at("type").string() != "Sequence") return {part};
  std::vector<const Value*> steps;
  for (const Value& item : part->at(items).array()) steps.push_back(&item);
  return steps;
}

bool is_step(const Value& step, std::string_view type) { return step.at("type").string() == type; }

// The pattern of a step that makes its matches words; empty for others.
std::string split_pattern(const Value& step) {
  if (!is_step(step, "Split") || step.at("behavior").string() != "Isolated" ||
      step.at("invert").boolean())
    return {};
  const Value* regex = step.at("pattern").find("Regex");
  return regex == nullptr ? std::string() : regex->string();
}

// llama.cpp's name of a byte-level pre-tokenizer.
std::string pre_of(const Value& root, const std::vector<const Value*>& steps) {
  const Value& last = *steps.back();
  if (last.at("add_prefix_space").boolean())
    refuse_tokenizer("pre_tokenizer", "a space in front of every text");
  const bool gpt2 = optional_flag(last, "use_regex", true);
  const bool has_merges = !root.at("model").at("merges").array().empty();
  if (steps.size() == 1 && (gpt2 || !has_merges)) return "gpt-2";
  if (steps.size() == 2 && gpt2 && is_step(*steps[0], "Digits") &&
      steps[0]->at("individual_digits").boolean())
    return "smollm";
  const std::string pattern = steps.size() == 2 && !gpt2 ? split_pattern(*steps[0]) : std::string();
  const bool ignores = optional_flag(root.at("model"), "ignore_merges", false);
  if (pattern == llama3_pattern) return ignores ? "llama-bpe" : "dbrx";
  if (ignores) refuse_tokenizer("model", "ignore_merges with this split pattern");
  if (pattern == qwen2_pattern) return "qwen2";
  if (pattern == gpt2_pattern) return "gpt-2";
  refuse_tokenizer("pre_tokenizer",
                   pattern.empty() ? "other steps" : "the split pattern " + pattern);
}

std::vector<std::string> tokens_of(const Value& root) {
  std::vector<std::string> tokens;
  const auto put = [&](const std::string& text, const Value& id) {
    const auto place = static_cast<size_t>(id.integer(0, max_token_id));
    if (place >= tokens.size()) tokens.resize(place + 1);
    tokens[place] = text;
  };
  for (const auto& [text, id] : root.at("model").at("vocab").object()) put(text, id);
  if (const Value* added = optional_member(root, "added_tokens"))
    for (const Value& token : added->array()) put(token.at("content").string(), token.at("id"));
  return tokens;
}

std::vector<int32_t> types_of(const Value& root, const std::vector<std::string>& tokens) {
  std::vector<int32_t> types;
  for (const std::string& text : tokens)
    types.push_back(static_cast<int32_t>(text.empty() ? Type::unused : Type::normal));
  if (const Value* added = optional_member(root, "added_tokens")) {
    for (const Value& token : added->array()) {
      const bool special = token.at("special").boolean();
      types[static_cast<size_t>(token.at("id").integer(0, max_token_id))] =
          static_cast<int32_t>(special ? Type::control : Type::user_defined);
    }
  }
  return types;
}

// Left and right of a merge.
std::pair<std::string, std::string> merge_of(const Value& value) {
  if (value.is_string()) {
    const std::string& text = value.string();
    const size_t cut = text.find(' ');
    return {text.substr(0, cut), text.substr(std::min(cut, text.size() - 1) + 1)};
  }
  return {value.array().at(0).string(), value.array().at(1).string()};
}

std::vector<std::pair<std::string, std::string>> merges_of(const Value& root) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Value& item : root.at("model").at("merges").array()) {
    if (item.is_string() && item.string().starts_with("#version")) continue;
    merges.push_back(merge_of(item));
  }
  return merges;
}

GgufContents byte_level_of(const Value& root, const std::vector<const Value*>& steps) {
  for (const Value* step : steps_of(root, "normalizer", "normalizers")) {
    // llama.cpp's own converter leaves NFC out, too.
    if (!is_step(*step, "NFC")) refuse_tokenizer("normalizer", step->at("type").string());
  }
  GgufContents contents{
      .model = "gpt2", .pre = pre_of(root, steps), .tokens = tokens_of(root), .types = {}};
  contents.types = types_of(root, contents.tokens);
  for (const auto& [left, right] : merges_of(root)) contents.merges.push_back(left + " " + right);
  return contents;
}

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
}

// SentencePiece merges the pair with the highest score, so that the rank of the first merge that
// makes a piece serves as its score.
std::vector<float> scores_of(const Value& root, const std::vector<std::string>& tokens) {
  std::unordered_map<std::string, float> order;
  for (const auto& [left, right] : merges_of(root))
    order.emplace(left + right, -static_cast<float>(order.size()));
  std::vector<float> scores;
  for (const std::string& text : tokens) {
    const auto found = order.find(text);
    scores.push_back(found != order.end() ? found->second : -1e6F);
  }
  return scores;
}

GgufContents sentencepiece_of_json(const Value& root) {
  GgufContents contents{.model = "llama", .pre = "default", .tokens = tokens_of(root), .types = {}};
  bool replaces = false;
  contents.add_space_prefix = false;
  for (const Value* step : steps_of(root, "normalizer", "normalizers")) {
    if (is_step(*step, "Prepend") && step->at("prepend").string() == space_mark) {
      contents.add_space_prefix = true;
    } else if (is_step(*step, "Replace") && step->at("content").string() == space_mark &&
               step->at("pattern").find("String") != nullptr &&
               step->at("pattern").at("String").string() == " ") {
      replaces = true;
    } else {
      refuse_tokenizer("normalizer", step->at("type").string());
    }
  }
  if (!replaces || !optional_flag(root.at("model"), "byte_fallback", false))
    refuse_tokenizer("tokenizer.json", "BPE of characters without byte fallback");
  for (const Value* step : steps_of(root, "pre_tokenizer", "pretokenizers")) {
    // Gemma's splits at spaces, of which the normalizer leaves none.
    const Value* pattern = is_step(*step, "Split") ? step->at("pattern").find("String") : nullptr;
    if (pattern == nullptr || pattern->string() != " ")
      refuse_tokenizer("pre_tokenizer", step->at("type").string());
  }
  contents.types = types_of(root, contents.tokens);
  contents.scores = scores_of(root, contents.tokens);
  const Value* unknown = optional_member(root.at("model"), "unk_token");
  for (size_t id = 0; id < contents.tokens.size(); ++id) {
    if (is_byte_token(contents.tokens[id])) contents.types[id] = static_cast<int32_t>(Type::byte);
    if (unknown != nullptr && contents.tokens[id] == unknown->string())
      contents.types[id] = static_cast<int32_t>(Type::unknown);
  }
  return contents;
}

GgufContents of_json(const std::string& text, const std::string& name) {
  const json::Document document = json::parse(text, {gguf_writer, name});
  const Value& root = document.root();
  const Value* type = root.at("model").find("type");
  if (type != nullptr && type->string() != "BPE") refuse_tokenizer("model", type->string());
  const auto steps = steps_of(root, "pre_tokenizer", "pretokenizers");
  return !steps.empty() && is_step(*steps.back(), "ByteLevel") ? byte_level_of(root, steps)
                                                               : sentencepiece_of_json(root);
}

GgufContents of_sentencepiece(std::string_view model, const std::string& name) {
  const SentencePieceContents read =
      read_sentencepiece_model(std::as_bytes(std::span(model)), name);
  if (read.is_unigram) refuse_tokenizer(name, "a unigram model");
  if (!read.charsmap.empty()) refuse_tokenizer(name, "a table of normalization rules");
  if (read.suffix_space) refuse_tokenizer(name, "spaces behind words");
  if (read.remove_extra_whitespaces) refuse_tokenizer(name, "runs of spaces joined to one");
  GgufContents contents{.model = "llama", .pre = "default", .tokens = {}, .types = {}};
  for (const auto& piece : read.pieces) {
    contents.tokens.push_back(piece.text);
    contents.types.push_back(static_cast<int32_t>(piece.type));
    contents.scores.push_back(piece.score);
  }
  contents.add_space_prefix = read.add_dummy_prefix;
  return contents;
}

// Every id of the model has a token, and no two have the same.
void fill(GgufContents& contents, int64_t vocab, const std::string& name) {
  if (std::cmp_greater(contents.tokens.size(), vocab))
    fail(gguf_writer, {.argument = name,
                       .expected = fmt::format("at most the model's {} tokens", vocab),
                       .found = std::to_string(contents.tokens.size())});
  const auto count = static_cast<size_t>(vocab);
  contents.tokens.resize(count);
  contents.types.resize(count, static_cast<int32_t>(Type::unused));
  if (!contents.scores.empty()) contents.scores.resize(count, -10000.0F);
  std::set<std::string_view> seen;
  for (size_t id = 0; id < count; ++id) {
    std::string& text = contents.tokens[id];
    if (text.empty()) text = fmt::format("[PAD{}]", id);
    if (!seen.insert(text).second)
      fail(gguf_writer, {.argument = name,
                         .expected = "tokens that differ, since llama.cpp ends at others",
                         .found = json::in_quotes(text) + " twice"});
  }
}

// The id of a role's token in tokenizer_config.json.
std::optional<int64_t> role_id(const io::CompanionFiles& companions, const char* role,
                               const GgufContents& contents) {
  const auto found = companions.find("tokenizer_config.json");
  if (found == companions.end()) return {};
  const json::Document document = json::parse(found->second, {gguf_writer, found->first});
  const Value* token = optional_member(document.root(), role);
  if (token == nullptr) return {};
  const std::string& text = token->is_string() ? token->string() : token->at("content").string();
  const auto at = std::find(contents.tokens.begin(), contents.tokens.end(), text);
  if (at == contents.tokens.end()) return {};
  return at - contents.tokens.begin();
}

void add_special_ids(io::gguf::Writer& out, const GgufContents& contents, const TemplateIds& around,
                     const io::CompanionFiles& companions, const nn::LanguageModelConfig& config) {
  const auto first = [](std::optional<int64_t> a, std::optional<int64_t> b) { return a ? a : b; };
  std::optional<int64_t> bos = first(config.bos, role_id(companions, "bos_token", contents));
  if (!around.before.empty()) bos = around.before.front();
  std::optional<int64_t> eos = role_id(companions, "eos_token", contents);
  if (!config.eos.empty()) eos = config.eos.front();
  // Without an id llama.cpp takes that of another model's token.
  out.add_u32("tokenizer.ggml.bos_token_id", bos.value_or(eos.value_or(0)));
  out.add_u32("tokenizer.ggml.eos_token_id", eos.value_or(0));
  if (config.eos.size() > 1) out.add_u32("tokenizer.ggml.eot_token_id", config.eos[1]);
  const auto unknown =
      std::find(contents.types.begin(), contents.types.end(), static_cast<int32_t>(Type::unknown));
  if (unknown != contents.types.end())
    out.add_u32("tokenizer.ggml.unknown_token_id", unknown - contents.types.begin());
  if (const auto padding = role_id(companions, "pad_token", contents))
    out.add_u32("tokenizer.ggml.padding_token_id", *padding);
  out.add_flag("tokenizer.ggml.add_bos_token", !around.before.empty());
  out.add_flag("tokenizer.ggml.add_eos_token", !around.after.empty());
}

void add_chat_template(io::gguf::Writer& out, const io::CompanionFiles& companions) {
  constexpr std::string_view key = "tokenizer.chat_template";
  if (const auto own = companions.find("chat_template.jinja"); own != companions.end())
    return out.add(key, own->second);
  const auto found = companions.find("tokenizer_config.json");
  if (found == companions.end()) return;
  const json::Document document = json::parse(found->second, {gguf_writer, found->first});
  const Value* chat = optional_member(document.root(), "chat_template");
  if (chat != nullptr && chat->is_string()) out.add(key, chat->string());
}

}  // namespace

void add_gguf_tokenizer(io::gguf::Writer& out, const fs::path& folder,
                        const nn::LanguageModelConfig& config) {
  const auto file = find_tokenizer(folder);
  const auto tokenizer = tokenizer_of(folder, config.vocab);
  const std::string name = file ? file->string() : "tokenizer";
  const std::string model =
      tokenizer->model().empty() ? byte_tokenizer_json() : std::string(tokenizer->model());
  GgufContents contents =
      model.starts_with('{') ? of_json(model, name) : of_sentencepiece(model, name);
  fill(contents, config.vocab, name);
  out.add("tokenizer.ggml.model", contents.model);
  out.add("tokenizer.ggml.pre", contents.pre);
  out.add_texts("tokenizer.ggml.tokens", contents.tokens);
  out.add_i32s("tokenizer.ggml.token_type", contents.types);
  if (contents.model == "gpt2") {
    out.add_texts("tokenizer.ggml.merges", contents.merges);
  } else {
    out.add_f32s("tokenizer.ggml.scores", contents.scores);
  }
  if (contents.add_space_prefix)
    out.add_flag("tokenizer.ggml.add_space_prefix", *contents.add_space_prefix);
  const io::CompanionFiles companions = io::read_companions(folder, gguf_writer);
  add_special_ids(out, contents, tokenizer->template_ids(), companions, config);
  add_chat_template(out, companions);
}

}  // namespace binade::data
