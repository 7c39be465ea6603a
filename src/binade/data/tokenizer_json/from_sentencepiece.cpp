#include "binade/data/tokenizer_json/from_sentencepiece.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "binade/base/json.h"
#include "binade/data/tokenizer_json/unicode.h"
#include "binade/data/tokenizer_json/write.h"

namespace binade::data {
namespace {

using json::Writer;
using Type = SentencePieceContents::Type;

constexpr const char* space = "\xE2\x96\x81";  // U+2581, which stands for a space in pieces

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group =
          group << 8U | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i)
      text += at + i <= bytes.size() ? digits[group >> (18U - 6U * i) & 63U] : '=';
  }
  return text;
}

void write_added_tokens(Writer& out, const SentencePieceContents& contents) {
  out.begin_array();
  for (size_t id = 0; id < contents.pieces.size(); ++id) {
    const auto& piece = contents.pieces[id];
    const bool special = piece.type == Type::control || piece.type == Type::unknown;
    if (!special && piece.type != Type::user_defined) continue;
    out.begin_object().key("id").value(static_cast<int64_t>(id)).key("content").value(piece.text);
    for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"})
      out.key(name).value(false);
    out.key("special").value(special).end_object();
  }
  out.end_array();
}

void write_replace(Writer& out, const char* kind, const char* pattern, const char* content) {
  out.begin_object().key("type").value("Replace");
  out.key("pattern").begin_object().key(kind).value(pattern).end_object();
  out.key("content").value(content).end_object();
}

void write_normalizer(Writer& out, const SentencePieceContents& contents) {
  out.begin_object().key("type").value("Sequence").key("normalizers").begin_array();
  if (!contents.charsmap.empty()) {
    out.begin_object().key("type").value("Precompiled");
    out.key("precompiled_charsmap").value(base64(contents.charsmap)).end_object();
  }
  if (contents.remove_extra_whitespaces) {
    write_replace(out, "Regex", "^ +| +$", "");
    write_replace(out, "Regex", " {2,}", " ");
  }
  if (contents.add_dummy_prefix)
    out.begin_object().key("type").value("Prepend").key("prepend").value(space).end_object();
  write_replace(out, "String", " ", space);
  out.end_array().end_object();
}

void write_decoder(Writer& out, const SentencePieceContents& contents) {
  out.begin_object().key("type").value("Sequence").key("decoders").begin_array();
  write_replace(out, "String", space, " ");
  out.begin_object().key("type").value("ByteFallback").end_object();
  out.begin_object().key("type").value("Fuse").end_object();
  if (contents.add_dummy_prefix) {
    out.begin_object().key("type").value("Strip").key("content").value(" ");
    out.key("start").value(1).key("stop").value(0).end_object();
  }
  out.end_array().end_object();
}

// SentencePiece merges the pair whose piece has the highest score: every division of a piece into
// two is a merge, in the order of scores.
void write_merges(Writer& out, const SentencePieceContents& contents) {
  std::unordered_map<std::string_view, int64_t> ids;
  for (size_t id = 0; id < contents.pieces.size(); ++id) {
    if (contents.pieces[id].type == Type::normal)
      ids[contents.pieces[id].text] = static_cast<int64_t>(id);
  }
  std::vector<std::tuple<float, int64_t, int64_t>> merges;  // minus the score, left, right
  for (const auto& [text, id] : ids) {
    for (size_t cut = character_at(text, 0).bytes; cut < text.size();
         cut += character_at(text, cut).bytes) {
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.emplace_back(-contents.pieces[static_cast<size_t>(id)].score, left->second,
                            right->second);
    }
  }
  std::sort(merges.begin(), merges.end());
  out.begin_array();
  for (const auto& [score, left, right] : merges) {
    out.begin_array().value(contents.pieces[static_cast<size_t>(left)].text);
    out.value(contents.pieces[static_cast<size_t>(right)].text).end_array();
  }
  out.end_array();
}

void write_bpe(Writer& out, const SentencePieceContents& contents, size_t unknown) {
  out.begin_object().key("type").value("BPE").key("dropout").value(nullptr);
  out.key("unk_token").value(contents.pieces[unknown].text);
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    out.key(name).value(nullptr);
  out.key("fuse_unk").value(true).key("byte_fallback").value(contents.byte_fallback);
  out.key("ignore_merges").value(false).key("vocab").begin_object();
  for (size_t id = 0; id < contents.pieces.size(); ++id)
    out.key(contents.pieces[id].text).value(static_cast<int64_t>(id));
  out.end_object().key("merges");
  write_merges(out, contents);
  out.end_object();
}

void write_unigram(Writer& out, const SentencePieceContents& contents, size_t unknown) {
  out.begin_object().key("type").value("Unigram").key("unk_id");
  out.value(static_cast<int64_t>(unknown)).key("vocab").begin_array();
  for (const auto& piece : contents.pieces)
    out.begin_array().value(piece.text).value(static_cast<double>(piece.score)).end_array();
  out.end_array().key("byte_fallback").value(contents.byte_fallback).end_object();
}

}  // namespace

std::optional<std::string> sentencepiece_tokenizer_json(std::string_view model,
                                                        const std::string& name) {
  const SentencePieceContents contents =
      read_sentencepiece_model(std::as_bytes(std::span(model)), name);
  const auto is_unused = [](const auto& piece) { return piece.type == Type::unused; };
  if (std::any_of(contents.pieces.begin(), contents.pieces.end(), is_unused)) return std::nullopt;
  return sentencepiece_tokenizer_json(contents);
}

std::optional<std::string> sentencepiece_tokenizer_json(const SentencePieceContents& contents,
                                                        std::optional<int64_t> bos) {
  const auto& pieces = contents.pieces;
  const auto unknown = std::find_if(pieces.begin(), pieces.end(),
                                    [](const auto& p) { return p.type == Type::unknown; });
  if (contents.suffix_space || unknown == pieces.end()) return std::nullopt;
  const auto unknown_id = static_cast<size_t>(unknown - pieces.begin());
  Writer out;
  out.begin_object().key("version").value("1.0").key("truncation").value(nullptr);
  out.key("padding").value(nullptr).key("added_tokens");
  write_added_tokens(out, contents);
  out.key("normalizer");
  write_normalizer(out, contents);
  out.key("pre_tokenizer").value(nullptr).key("post_processor");
  if (bos) {
    write_bos_template(out, {pieces[static_cast<size_t>(*bos)].text, *bos});
  } else {
    out.value(nullptr);
  }
  out.key("decoder");
  write_decoder(out, contents);
  out.key("model");
  if (contents.is_unigram) {
    write_unigram(out, contents, unknown_id);
  } else {
    write_bpe(out, contents, unknown_id);
  }
  return out.end_object().text() + "\n";
}

}  // namespace binade::data
