#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "binade/serve/answer.h"
#include "binade/serve/token_json.h"
#include "binade/train/generate.h"

namespace binade::serve {

enum class ReplyKind : uint8_t { completion, chat };

// What a reply is about, besides its texts.
struct ReplyFacts {
  ReplyKind kind = ReplyKind::completion;
  std::string id, model;
  int64_t created = 0;  // seconds since 1970
  bool stream = false, include_usage = false, log_probs = false;
  int64_t prompt_tokens = 0;
  std::vector<std::string> prompts = {};       // of each text, to be echoed; empty: none is
  std::vector<int64_t> first_prompt_ids = {};  // of each text whose prompt is scored
  std::vector<int64_t> last_prompt_ids = {};   // of each text that goes on with its prompt
  size_t texts = 1;
};

// The connection to a client.
struct Client {
  std::function<bool(std::string_view)> write;  // false: the client is gone
  std::function<bool()> is_there;
};

// The body of the reply to a request: one JSON object, or events while the texts grow.
class Reply {
 public:
  Reply(ReplyFacts facts, std::shared_ptr<Answer> answer, const data::Tokenizer& tokenizer);
  // Ends what is still being generated.
  ~Reply();
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  const char* content_type() const;
  // Writes all of it, which takes as long as the texts take. Returns false if the client is gone or
  // the model failed: the connection should be closed then.
  bool write_to(const Client& client);

 private:
  // What is not written yet of a text.
  struct Choice {
    train::TextStream characters{train::TextStream::Characters::all};
    TokenJson tokens;
    std::optional<int64_t> first = {};  // of a scored prompt
    std::string text = {};
    std::vector<train::ScoredToken> scores = {};
    std::optional<train::Finish> finish = {};
  };

  bool write_start(const Client& client) const;
  bool accept(TextPart part, const Client& client);
  bool write_chunk(size_t index, const Client& client);
  bool write_end(const Client& client);
  void begin_json(json::Writer& out, bool is_chunk) const;
  void write_choice(size_t index, json::Writer& out);
  void write_usage(json::Writer& out) const;

  const ReplyFacts facts_;
  const std::shared_ptr<Answer> answer_;
  std::vector<Choice> choices_;
  size_t unfinished_;
  int64_t generated_ = 0;  // tokens
};

}  // namespace binade::serve
