#include "binade/data/tokenizer_json/read.h"

#include <algorithm>
#include <unordered_set>

#include "binade/data/tokenizer_json/read_parts.h"

namespace binade::data {
namespace {

using json::Value;

// Bounds the trie of added tokens, which has a node for each byte.
constexpr size_t max_added_bytes = 4 << 20;

AddedToken read_added_token(const Value& value) {
  expect_members(value,
                 {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  return {.id = static_cast<int32_t>(value.at("id").integer(0, max_token_id)),
          .content = text_of(value.at("content")),
          .single_word = value.at("single_word").boolean(),
          .lstrip = value.at("lstrip").boolean(),
          .rstrip = value.at("rstrip").boolean(),
          .normalized = value.at("normalized").boolean(),
          .special = value.at("special").boolean()};
}

// The package ignores the ids in the file: a token gets the model's id, or the next free one. Other
// ids are refused, since the file means something else by them.
std::vector<AddedToken> read_added_tokens(const Value& value, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  int64_t next = vocabulary.count();
  size_t bytes = 0;
  std::unordered_set<std::string> seen;
  for (const Value& item : value.array()) {
    AddedToken token = read_added_token(item);
    if (!seen.insert(token.content).second)
      item.refuse("added tokens that differ", json::in_quotes(token.content) + " twice");
    if ((bytes += token.content.size()) > max_added_bytes)
      item.refuse("at most " + std::to_string(max_added_bytes) + " bytes of added tokens", "more");
    const auto known = vocabulary.id_of(token.content);
    const int64_t id = known ? *known : next++;
    if (token.id != id) {
      item.at("id").refuse("the id of " + json::in_quotes(token.content) + ", " +
                               std::to_string(id) +
                               (known ? ", as in the vocabulary" : ", the next"),
                           std::to_string(token.id));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Normalized added tokens must be unique and not empty.
void check_normalized(const Value& value, const PipelineParts& parts) {
  std::unordered_set<std::string> seen;
  std::string storage;
  WorkBudget budget = budget_of(parts.added_tokens);
  for (size_t i = 0; i < parts.added_tokens.size(); ++i) {
    const AddedToken& token = parts.added_tokens[i];
    if (!token.normalized) continue;
    const std::string text(
        parts.normalizer.apply(token.content, Normalizer::Piece::segment, budget, storage));
    if (text.empty() || !seen.insert(text).second) {
      value.array()[i].refuse(
          "an added token that normalizes to a text of its own",
          json::in_quotes(token.content) + ", which becomes " + json::in_quotes(text));
    }
  }
}

// The ids of a special token of a template.
void append_special(const Value& piece, const Value& tokens, std::vector<int64_t>& ids) {
  expect_members(piece, {"id", "type_id"});
  const Value& token = tokens.at(piece.at("id").string());
  expect_members(token, {"id", "ids", "tokens"});
  for (const Value& id : token.at("ids").array()) ids.push_back(id.integer(0, max_token_id));
}

TemplateIds read_template(const Value& value) {
  expect_members(value, {"type", "single", "pair", "special_tokens"});
  TemplateIds result;
  bool has_text = false;
  for (const Value& piece : value.at("single").array()) {
    expect_members(piece, {"Sequence", "SpecialToken"});
    if (const Value* token = piece.find("SpecialToken")) {
      append_special(*token, value.at("special_tokens"), has_text ? result.after : result.before);
      continue;
    }
    const Value& sequence = piece.at("Sequence");
    expect_members(sequence, {"id", "type_id"});
    if (sequence.at("id").string() != "A" || has_text)
      sequence.refuse("one text, \"A\"", has_text ? "a second" : sequence.at("id").describe());
    has_text = true;
  }
  if (!has_text) value.at("single").refuse("a place for the text", "none");
  return result;
}

// A text between two tokens, ["[CLS]", 101] and ["[SEP]", 102].
TemplateIds read_bert_template(const Value& value) {
  const auto id_of = [&](const char* name) {
    const auto& pair = value.at(name).array();
    if (pair.size() != 2) value.at(name).refuse("a token and its id", value.at(name).describe());
    text_of(pair[0]);
    return pair[1].integer(0, max_token_id);
  };
  return {.before = {id_of("cls")}, .after = {id_of("sep")}};
}

TemplateIds read_bert_processing(const Value& value) {
  expect_members(value, {"type", "sep", "cls"});
  return read_bert_template(value);
}

// Its two flags are about offsets, too.
TemplateIds read_roberta_processing(const Value& value) {
  expect_members(value, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  return read_bert_template(value);
}

// Null for a post-processor that is no template.
TemplateIds (*template_reader(std::string_view type))(const Value&) {
  if (type == "TemplateProcessing") return read_template;
  if (type == "BertProcessing") return read_bert_processing;
  if (type == "RobertaProcessing") return read_roberta_processing;
  return nullptr;
}

// ByteLevel only changes offsets, which are not kept here.
void add_post_processor(const Value& value, bool& has_template, TemplateIds& result) {
  const Value& type = value.at("type");
  if (type.string() == "Sequence") {
    expect_members(value, {"type", "processors"});
    for (const Value& item : value.at("processors").array())
      add_post_processor(item, has_template, result);
  } else if (const auto read = template_reader(type.string())) {
    if (has_template) value.refuse("one template", "a second");
    has_template = true;
    result = read(value);
  } else if (type.string() == "ByteLevel") {
    expect_members(value, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else {
    type.refuse(
        "a post-processor ByteLevel, Sequence, TemplateProcessing, BertProcessing or "
        "RobertaProcessing",
        type.describe());
  }
}

void check_ids(const TokenizerJson& content, const Value& root) {
  int64_t vocab = content.parts.model->vocabulary().size();
  for (const AddedToken& token : content.parts.added_tokens)
    vocab = std::max<int64_t>(vocab, token.id + 1);
  for (const auto* ids : {&content.template_ids.before, &content.template_ids.after}) {
    for (const int64_t id : *ids) {
      if (id >= vocab)
        root.at("post_processor")
            .refuse("ids below the vocabulary's " + std::to_string(vocab), std::to_string(id));
    }
  }
}

// Truncation and padding, which would change the ids of a text.
void expect_none(const Value& root, std::string_view name) {
  if (const Value* value = optional_member(root, name))
    value->refuse("null", value->describe(), "texts are encoded whole; set it to null");
}

}  // namespace

TokenizerJson read_tokenizer_json(std::string_view text, const std::string& name) {
  const json::Document document = json::parse(text, {"tokenizer", name});
  const Value& root = document.root();
  expect_members(root, {"version", "truncation", "padding", "added_tokens", "normalizer",
                        "pre_tokenizer", "post_processor", "decoder", "model"});
  if (const Value& version = root.at("version"); version.string() != "1.0")
    version.refuse("\"1.0\"", version.describe());
  expect_none(root, "truncation");
  expect_none(root, "padding");
  TokenizerJson content;
  PipelineParts& parts = content.parts;
  if (const Value* value = optional_member(root, "normalizer"))
    parts.normalizer = read_normalizer(*value);
  if (const Value* value = optional_member(root, "pre_tokenizer"))
    parts.pre_tokenizer = read_pre_tokenizer(*value);
  if (const Value* value = optional_member(root, "decoder")) parts.decoder = read_decoder(*value);
  parts.model = read_model(root.at("model"),
                           parts.pre_tokenizer.is_byte_level() ? WordKind::bytes : WordKind::text);
  if (const Value* value = optional_member(root, "added_tokens")) {
    parts.added_tokens = read_added_tokens(*value, parts.model->vocabulary());
    check_normalized(*value, parts);
  }
  if (const Value* value = optional_member(root, "post_processor")) {
    bool has_template = false;
    add_post_processor(*value, has_template, content.template_ids);
  }
  check_ids(content, root);
  return content;
}

}  // namespace binade::data
