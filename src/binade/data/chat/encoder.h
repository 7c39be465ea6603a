#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/data/chat/chat_template.h"
#include "binade/data/corpus.h"

// The tokens of examples, and which of them are answers.
namespace binade::data {

// Either messages, or a prompt and its completion.
struct Example {
  std::vector<Message> messages = {};
  jinja::Value tools = jinja::Value(nullptr);  // that the assistant may call, for the template
  std::string prompt = {}, completion = {};
  std::optional<size_t> last_answers = {};  // how many of the messages' answers count; none: all
};

struct Encoded {
  std::vector<int64_t> ids;
  std::vector<bool> is_target;
};

// Encodes examples by a source's tokenizer and chat template. The source must outlive it.
class Encoder {
 public:
  // Fails for an EOS token outside of the vocabulary.
  explicit Encoder(const Source& source);

  // `where`: the example's place, for messages. Fails for messages without a chat template.
  Encoded encode(const Example& example, const std::string& where) const;

 private:
  using Range = std::pair<size_t, size_t>;

  std::vector<int64_t> ids_of(std::string_view text) const;
  std::vector<int64_t> ids_between(std::string_view text, size_t begin, size_t end) const;
  bool may_cut(std::string_view text, size_t at) const;
  Encoded conversation(const Example& example, const std::string& where) const;
  Encoded tokens_of(const RenderedChat& chat) const;
  void append_piece(const RenderedChat& chat, Range piece, std::span<const Range> answers,
                    Encoded& encoded) const;
  Encoded completion(const Example& example) const;

  const Source& source_;
};

}  // namespace binade::data
