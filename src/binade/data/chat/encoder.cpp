#include "binade/data/chat/encoder.h"

#include <algorithm>

#include "binade/base/error.h"

namespace binade::data {
namespace {

int64_t common_prefix(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

Encoder::Encoder(const Source& source) : source_(source) {
  if (source.eos && *source.eos >= source.vocab)
    fail("data", {.argument = "eos_token_id of the model",
                  .expected = "an id below its vocabulary of " + std::to_string(source.vocab),
                  .found = std::to_string(*source.eos)});
}

Encoded Encoder::encode(const Example& example, const std::string& where) const {
  return example.messages.empty() ? completion(example) : conversation(example, where);
}

std::vector<int64_t> Encoder::ids_of(std::string_view text) const {
  if (source_.tokenizer != nullptr) return source_.tokenizer->encode(text);
  return {reinterpret_cast<const unsigned char*>(text.data()),
          reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
}

std::vector<int64_t> Encoder::ids_between(std::string_view text, size_t begin, size_t end) const {
  if (source_.tokenizer != nullptr) return source_.tokenizer->encode_between(text, begin, end);
  return ids_of(text.substr(begin, end - begin));
}

bool Encoder::may_cut(std::string_view text, size_t at) const {
  return source_.tokenizer == nullptr || source_.tokenizer->may_cut(text, at);
}

// A token may reach over the boundary between a prompt and its answer; it counts as the answer's.
Encoded Encoder::conversation(const Example& example, const std::string& where) const {
  if (!source_.chat)
    fail("data",
         {.argument = where,
          .expected = "a chat template in the model's folder, to write messages with",
          .found = "none",
          .hint = "give --chat chatml, llama3, gemma or mistral to 'binade train', or lines "
                  "with prompt and completion"});
  RenderedChat chat = render(*source_.chat, example.messages, where, example.tools);
  const size_t count = chat.answers.size(), kept = example.last_answers.value_or(count);
  if (kept < count)
    chat.answers.erase(chat.answers.begin(), chat.answers.end() - static_cast<ptrdiff_t>(kept));
  return tokens_of(chat);
}

// In pieces that end where an answer ends, so that the time grows with the length of the text
// only. If the text may not be cut there, a piece has several answers, up to a bound.
Encoded Encoder::tokens_of(const RenderedChat& chat) const {
  constexpr size_t max_answers = 64, max_bytes = 8192;
  const std::string_view text = chat.text;
  Encoded encoded;
  size_t begin = 0, first = 0;  // of the piece, and its first answer
  for (size_t i = 0; i < chat.answers.size(); ++i) {
    const size_t end = chat.answers[i].second;
    const bool is_long = i - first >= max_answers && end - begin >= max_bytes;
    if (!is_long && !may_cut(text, end)) continue;
    append_piece(chat, {begin, end}, std::span(chat.answers).subspan(first, i + 1 - first),
                 encoded);
    begin = end;
    first = i + 1;
  }
  append_piece(chat, {begin, text.size()}, std::span(chat.answers).subspan(first), encoded);
  return encoded;
}

void Encoder::append_piece(const RenderedChat& chat, Range piece, std::span<const Range> answers,
                           Encoded& encoded) const {
  const std::vector<int64_t> ids = ids_between(chat.text, piece.first, piece.second);
  const auto tokens_up_to = [&](size_t end) {
    if (end == piece.second) return static_cast<int64_t>(ids.size());
    return common_prefix(ids, ids_between(chat.text, piece.first, end));
  };
  const auto before = static_cast<int64_t>(encoded.ids.size());
  encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
  encoded.is_target.resize(encoded.ids.size());
  const auto target = encoded.is_target.begin() + before;
  for (const auto& [begin, end] : answers)
    std::fill(target + tokens_up_to(begin), target + tokens_up_to(end), true);
}

Encoded Encoder::completion(const Example& example) const {
  const TemplateIds around =
      source_.tokenizer != nullptr ? source_.tokenizer->template_ids() : TemplateIds{};
  const std::vector<int64_t> ids = ids_of(example.prompt + example.completion);
  const int64_t boundary = common_prefix(ids, ids_of(example.prompt));
  Encoded encoded{around.before, {}};
  encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
  std::vector<int64_t> after = around.after;
  if (after.empty() && source_.eos) after = {*source_.eos};
  encoded.ids.insert(encoded.ids.end(), after.begin(), after.end());
  encoded.is_target.resize(encoded.ids.size());
  const auto first = static_cast<int64_t>(around.before.size()) + boundary;
  std::fill(encoded.is_target.begin() + first, encoded.is_target.end(), true);
  return encoded;
}

}  // namespace binade::data
