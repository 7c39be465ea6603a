#include "binade/serve/reply.h"

#include <utility>

#include "binade/serve/request.h"

namespace binade::serve {
namespace {

constexpr std::chrono::milliseconds patience{200};  // between looks at the connection

const char* finish_reason(train::Finish finish) {
  return finish == train::Finish::eos || finish == train::Finish::stop ? "stop" : "length";
}

std::string event_of(std::string_view data) { return "data: " + std::string(data) + "\n\n"; }

}  // namespace

Reply::Reply(ReplyFacts facts, std::shared_ptr<Answer> answer, const data::Tokenizer& tokenizer)
    : facts_(std::move(facts)), answer_(std::move(answer)), unfinished_(facts_.texts) {
  for (size_t i = 0; i < facts_.texts; ++i) {
    const bool has_prompt = !facts_.first_prompt_ids.empty();
    std::optional<int64_t> before;  // the first token that is written
    if (!has_prompt && !facts_.last_prompt_ids.empty()) before = facts_.last_prompt_ids[i];
    Choice& choice = choices_.emplace_back(Choice{.tokens = TokenJson(tokenizer, before)});
    if (!facts_.prompts.empty()) choice.text = facts_.prompts[i];
    if (has_prompt) choice.first = facts_.first_prompt_ids[i];
  }
}

Reply::~Reply() { answer_->cancel(); }

const char* Reply::content_type() const {
  return facts_.stream ? "text/event-stream" : "application/json";
}

bool Reply::write_to(const Client& client) {
  if (facts_.stream && !write_start(client)) return false;
  while (unfinished_ > 0) {
    std::optional<TextPart> part = answer_->take(patience);
    if (!part && !answer_->failure().empty()) {
      if (facts_.stream)
        client.write(
            event_of(RequestError(500, "generation failed: " + answer_->failure()).json()));
      return false;
    }
    if (part ? !accept(std::move(*part), client) : !client.is_there()) return false;
  }
  return write_end(client);
}

bool Reply::accept(TextPart part, const Client& client) {
  Choice& choice = choices_[part.choice];
  generated_ += static_cast<int64_t>(part.tokens.size());
  choice.text += choice.characters.add(part.text);
  if (facts_.log_probs) {
    choice.scores.insert(choice.scores.end(), part.prompt.begin(), part.prompt.end());
    choice.scores.insert(choice.scores.end(), part.tokens.begin(), part.tokens.end());
  }
  if (part.finish) {
    choice.text += choice.characters.finish();
    choice.finish = part.finish;
    --unfinished_;
  }
  if (!facts_.stream) return client.is_there();
  const bool has_news = !choice.text.empty() && !part.tokens.empty();
  return has_news || part.finish ? write_chunk(part.choice, client) : true;
}

void Reply::begin_json(json::Writer& out, bool is_chunk) const {
  const bool is_chat = facts_.kind == ReplyKind::chat;
  out.begin_object().key("id").value(facts_.id).key("object");
  out.value(!is_chat ? "text_completion" : is_chunk ? "chat.completion.chunk" : "chat.completion");
  out.key("created").value(facts_.created).key("model").value(facts_.model).key("choices");
  out.begin_array();
}

// A choice with what is new in it.
void Reply::write_choice(size_t index, json::Writer& out) {
  Choice& choice = choices_[index];
  out.begin_object().key("index").value(static_cast<int64_t>(index));
  const std::string text = std::exchange(choice.text, {});
  if (facts_.kind == ReplyKind::completion) {
    out.key("text").value(text);
  } else if (facts_.stream) {
    out.key("delta").begin_object();
    if (!text.empty()) out.key("content").value(text);
    out.end_object();
  } else {
    out.key("message").begin_object().key("role").value("assistant");
    out.key("content").value(text).end_object();
  }
  out.key("logprobs");
  if (!facts_.log_probs) {
    out.value(nullptr);
  } else if (facts_.kind == ReplyKind::chat) {
    choice.tokens.write_content(choice.scores, out);
  } else {
    choice.tokens.write_lists(std::exchange(choice.first, {}), choice.scores, out);
  }
  choice.scores.clear();
  out.key("finish_reason");
  choice.finish ? out.value(finish_reason(*choice.finish)) : out.value(nullptr);
  out.end_object();
}

void Reply::write_usage(json::Writer& out) const {
  out.key("usage").begin_object().key("prompt_tokens").value(facts_.prompt_tokens);
  out.key("completion_tokens").value(generated_);
  out.key("total_tokens").value(facts_.prompt_tokens + generated_).end_object();
}

// The first event of a chat has the role.
bool Reply::write_start(const Client& client) const {
  if (facts_.kind != ReplyKind::chat) return true;
  for (size_t i = 0; i < choices_.size(); ++i) {
    json::Writer out;
    begin_json(out, true);
    out.begin_object().key("index").value(static_cast<int64_t>(i)).key("delta").begin_object();
    out.key("role").value("assistant").key("content").value("").end_object();
    out.key("logprobs").value(nullptr).key("finish_reason").value(nullptr).end_object().end_array();
    if (facts_.include_usage) out.key("usage").value(nullptr);
    if (!client.write(event_of(out.end_object().text()))) return false;
  }
  return true;
}

bool Reply::write_chunk(size_t index, const Client& client) {
  json::Writer out;
  begin_json(out, true);
  write_choice(index, out);
  out.end_array();
  if (facts_.include_usage) out.key("usage").value(nullptr);
  return client.write(event_of(out.end_object().text()));
}

bool Reply::write_end(const Client& client) {
  json::Writer out;
  begin_json(out, facts_.stream);
  if (!facts_.stream) {
    for (size_t i = 0; i < choices_.size(); ++i) write_choice(i, out);
  }
  out.end_array();
  write_usage(out);
  out.end_object();
  if (!facts_.stream) return client.write(out.text());
  if (facts_.include_usage && !client.write(event_of(out.text()))) return false;
  return client.write(event_of("[DONE]"));
}

}  // namespace binade::serve
