#include "binade/data/tokenizer_json/write.h"

#include "binade/base/json.h"
#include "binade/data/tokenizer_json/byte_level.h"

namespace binade::data {
namespace {

using json::Writer;

void write_added_tokens(Writer& out, const std::vector<AddedToken>& tokens) {
  out.begin_array();
  for (const AddedToken& token : tokens) {
    out.begin_object().key("id").value(token.id).key("content").value(token.content);
    out.key("single_word").value(token.single_word).key("lstrip").value(token.lstrip);
    out.key("rstrip").value(token.rstrip).key("normalized").value(token.normalized);
    out.key("special").value(token.special).end_object();
  }
  out.end_array();
}

void write_byte_level(Writer& out, bool use_regex) {
  out.begin_object().key("type").value("ByteLevel").key("add_prefix_space").value(false);
  out.key("trim_offsets").value(false).key("use_regex").value(use_regex).end_object();
}

void write_pre_tokenizer(Writer& out, ByteLevelBpe::Words words) {
  if (words != ByteLevelBpe::Words::llama3)
    return write_byte_level(out, words == ByteLevelBpe::Words::gpt2);
  out.begin_object().key("type").value("Sequence").key("pretokenizers").begin_array();
  out.begin_object().key("type").value("Split");
  out.key("pattern").begin_object().key("Regex").value(llama3_pattern).end_object();
  out.key("behavior").value("Isolated").key("invert").value(false).end_object();
  write_byte_level(out, false);
  out.end_array().end_object();
}

void write_model(Writer& out, const ByteLevelBpe& tokenizer) {
  out.begin_object().key("type").value("BPE");
  for (const char* name :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    out.key(name).value(nullptr);
  for (const char* name : {"fuse_unk", "byte_fallback", "ignore_merges"})
    out.key(name).value(false);
  out.key("vocab").begin_object();
  for (size_t id = 0; id < tokenizer.tokens.size(); ++id) {
    if (!tokenizer.tokens[id].empty())
      out.key(tokenizer.tokens[id]).value(static_cast<int64_t>(id));
  }
  out.end_object().key("merges").begin_array();
  const auto token = [&](int32_t id) { return tokenizer.tokens[static_cast<size_t>(id)]; };
  for (const auto& [left, right, result] : tokenizer.merges)
    out.begin_array().value(token(left)).value(token(right)).end_array();
  out.end_array().end_object();
}

}  // namespace

std::string write_tokenizer_json(const ByteLevelBpe& tokenizer) {
  Writer out;
  out.begin_object().key("version").value("1.0").key("truncation").value(nullptr);
  out.key("padding").value(nullptr).key("added_tokens");
  write_added_tokens(out, tokenizer.added_tokens);
  out.key("normalizer").value(nullptr).key("pre_tokenizer");
  write_pre_tokenizer(out, tokenizer.words);
  out.key("post_processor").value(nullptr).key("decoder");
  write_byte_level(out, false);
  out.key("model");
  write_model(out, tokenizer);
  return out.end_object().text() + "\n";
}

std::string byte_tokenizer_json() {
  ByteLevelBpe bytes{.tokens = {}, .words = ByteLevelBpe::Words::whole_text};
  for (int byte = 0; byte < 256; ++byte)
    bytes.tokens.push_back(byte_level_text(std::string(1, static_cast<char>(byte))));
  return write_tokenizer_json(bytes);
}

}  // namespace binade::data
