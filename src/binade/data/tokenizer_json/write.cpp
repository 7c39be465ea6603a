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
  using Words = ByteLevelBpe::Words;
  if (words == Words::whole_text || words == Words::gpt2)
    return write_byte_level(out, words == Words::gpt2);
  out.begin_object().key("type").value("Sequence").key("pretokenizers").begin_array();
  if (words == Words::digits_gpt2) {
    out.begin_object().key("type").value("Digits").key("individual_digits").value(true);
    out.end_object();
  } else {
    out.begin_object().key("type").value("Split").key("pattern").begin_object().key("Regex");
    out.value(words == Words::qwen2 ? qwen2_pattern : llama3_pattern).end_object();
    out.key("behavior").value("Isolated").key("invert").value(false).end_object();
  }
  write_byte_level(out, words == Words::digits_gpt2);
  out.end_array().end_object();
}

void write_model(Writer& out, const ByteLevelBpe& tokenizer) {
  out.begin_object().key("type").value("BPE");
  for (const char* name :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    out.key(name).value(nullptr);
  for (const char* name : {"fuse_unk", "byte_fallback"}) out.key(name).value(false);
  out.key("ignore_merges").value(tokenizer.ignore_merges);
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

// A text, its beginning token first; `name` and `type_id` tell the texts of a pair apart.
void write_text_with(Writer& out, const BeginningToken& token, const char* name, int type_id) {
  out.begin_object().key("SpecialToken").begin_object().key("id").value(token.text);
  out.key("type_id").value(type_id).end_object().end_object();
  out.begin_object().key("Sequence").begin_object().key("id").value(name);
  out.key("type_id").value(type_id).end_object().end_object();
}

}  // namespace

void write_bos_template(Writer& out, const BeginningToken& token) {
  out.begin_object().key("type").value("TemplateProcessing").key("single").begin_array();
  write_text_with(out, token, "A", 0);
  out.end_array().key("pair").begin_array();
  write_text_with(out, token, "A", 0);
  write_text_with(out, token, "B", 1);
  out.end_array().key("special_tokens").begin_object().key(token.text).begin_object();
  out.key("id").value(token.text).key("ids").begin_array().value(token.id).end_array();
  out.key("tokens").begin_array().value(token.text).end_array();
  out.end_object().end_object().end_object();
}

std::string write_tokenizer_json(const ByteLevelBpe& tokenizer) {
  Writer out;
  out.begin_object().key("version").value("1.0").key("truncation").value(nullptr);
  out.key("padding").value(nullptr).key("added_tokens");
  write_added_tokens(out, tokenizer.added_tokens);
  out.key("normalizer");
  if (tokenizer.nfc) {
    out.begin_object().key("type").value("NFC").end_object();
  } else {
    out.value(nullptr);
  }
  out.key("pre_tokenizer");
  write_pre_tokenizer(out, tokenizer.words);
  out.key("post_processor");
  if (tokenizer.begin) {
    write_bos_template(out, *tokenizer.begin);
  } else {
    out.value(nullptr);
  }
  out.key("decoder");
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
