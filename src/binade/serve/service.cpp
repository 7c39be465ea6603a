#include "binade/serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <span>
#include <utility>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/tokenizer_json/unicode.h"
#include "binade/train/conversation.h"
#include "binade/train/run/continuation.h"

namespace binade::serve {
namespace {

constexpr int64_t default_tokens = 16;  // of a completion, as OpenAI has it

uint64_t random_number() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// A text as it grows on the model's thread, and what is to be posted of it.
struct GrowingText {
  std::shared_ptr<Answer> answer;
  TextPart part;
  train::ContinuedText text;

  GrowingText(std::shared_ptr<Answer> to, size_t choice, const data::Tokenizer& tokenizer,
              std::span<const int64_t> prompt, const train::ContinuationOptions& options)
      : answer(std::move(to)),
        part{.choice = choice},
        text(tokenizer, prompt, options, [this](std::string_view more) { part.text += more; }) {}

  bool add(const train::ScoredToken& token) {
    part.tokens.push_back(token);
    const bool goes_on = text.add(token.id);
    if (goes_on) post();  // else the end is posted with it
    return goes_on;
  }
  void end() {
    part.finish = text.finish().finish;
    post();
  }
  void post() { answer->post(std::exchange(part, {.choice = part.choice})); }
};

}  // namespace

std::string shown_utf8(std::string_view bytes) {
  std::string storage;
  return std::string(data::valid_utf8(bytes, storage));
}

// The texts that a request asks for.
struct Service::Texts {
  const TextRequest& request;
  ReplyKind kind = ReplyKind::completion;
  std::vector<std::vector<int64_t>> prompts = {};
  std::vector<std::string> echoed = {};  // the prompts' texts; empty: they are not echoed
  train::ContinuationOptions options = {};
  std::vector<int64_t> tokens = {};  // to generate at most, of each prompt's texts
};

Service::Service(std::unique_ptr<nn::LanguageModel> model, const std::filesystem::path& folder,
                 Options options)
    : options_(std::move(options)),
      created_(std::time(nullptr)),
      model_(std::move(model)),
      tokenizer_(data::tokenizer_of(folder, model_->config().vocab)),
      chat_files_(data::read_chat_files(folder)),
      eos_(train::eos_ids(folder, model_->config())),
      engine_(*model_, options_.engine) {
  try {
    chat_ = data::read_chat_template(folder, options_.chat);
  } catch (const Error& error) {
    if (options_.chat) throw;
    chat_error_ = error.what();  // completions do without it
  }
}

void Service::check_ids(const std::vector<int64_t>& ids, const std::string& param) const {
  const int64_t vocab = model_->config().vocab;
  const auto past = std::ranges::find_if(ids, [&](int64_t id) { return id >= vocab; });
  if (past == ids.end()) return;
  throw RequestError(
      400,
      fmt::format("{}: expected ids below the vocabulary of {}, found {}", param, vocab, *past),
      param);
}

std::vector<int64_t> Service::ids_of(const Prompt& prompt) const {
  const auto* text = std::get_if<std::string>(&prompt);
  std::vector<int64_t> ids =
      text != nullptr ? tokenizer_->encode_prompt(*text) : std::get<std::vector<int64_t>>(prompt);
  if (ids.empty())
    throw RequestError(400, "prompt: expected at least one token, found none", "prompt");
  check_ids(ids, "prompt");
  return ids;
}

std::vector<int64_t> Service::ids_of(const std::vector<data::Message>& messages) const {
  if (!chat_)
    throw RequestError(
        400,
        "messages: expected a model with a chat template, found " +
            (chat_error_.empty() ? "none"
                                 : "one that does not run (" + shown_utf8(chat_error_) + ")") +
            "; start the server with --chat-format",
        "messages");
  try {
    return ids_of(train::ids_before_answer(*chat_, *tokenizer_, messages));
  } catch (const Error& error) {
    throw RequestError(400, error.what(), "messages");
  }
}

// The tokens to generate after a prompt at most. Fails if they do not fit the context.
int64_t Service::tokens_of(const TextRequest& request, const std::vector<int64_t>& prompt,
                           int64_t otherwise) const {
  const int64_t context = model_->config().context;
  const int64_t room = context - static_cast<int64_t>(prompt.size());
  const int64_t most = options_.max_tokens > 0 ? options_.max_tokens : context;
  const int64_t tokens = request.max_tokens.value_or(std::min({otherwise, most, room}));
  if (tokens > room || room < 0 || (tokens < 1 && !request.max_tokens))
    throw RequestError(
        400,
        fmt::format("the prompt has {} tokens and {} are asked for: expected at most "
                    "the model's context of {} in all",
                    prompt.size(), std::max<int64_t>(tokens, 1), context),
        "max_tokens", "context_length_exceeded");
  if (tokens > most)
    throw RequestError(400, fmt::format("max_tokens: expected at most {}, found {}", most, tokens),
                       "max_tokens");
  return tokens;
}

std::unique_ptr<Reply> Service::complete(std::string_view body) {
  std::unique_lock lock(reading_);
  const CompletionRequest request =
      parse_completion(body, std::min(options_.max_texts, options_.engine.queue));
  Texts texts{.request = request.text, .options = {.stops = request.text.stops}};
  for (const Prompt& prompt : request.prompts) {
    texts.prompts.push_back(ids_of(prompt));
    texts.tokens.push_back(tokens_of(request.text, texts.prompts.back(), default_tokens));
    if (!request.echo) continue;
    const auto* text = std::get_if<std::string>(&prompt);
    texts.echoed.push_back(
        shown_utf8(text != nullptr ? *text : tokenizer_->decode(texts.prompts.back())));
  }
  lock.unlock();
  return begin(std::move(texts));
}

std::unique_ptr<Reply> Service::chat(std::string_view body) {
  std::unique_lock lock(reading_);
  const ChatRequest request = parse_chat(body, std::min(options_.max_texts, options_.engine.queue));
  Texts texts{.request = request.text,
              .kind = ReplyKind::chat,
              .prompts = {ids_of(request.messages)},
              .options = {.stops = request.text.stops}};
  texts.tokens = {tokens_of(request.text, texts.prompts[0], model_->config().context)};
  train::end_with_answer(*chat_, *tokenizer_, texts.options);
  lock.unlock();
  return begin(std::move(texts));
}

TextJob Service::job_of(const Texts& texts, size_t index,
                        const std::shared_ptr<Answer>& answer) const {
  const auto count = static_cast<size_t>(texts.request.count);
  const size_t prompt = index / count;
  const bool is_scored = texts.request.top_logprobs.has_value();
  train::ContinuationOptions options = texts.options;
  options.generate.tokens = texts.tokens[prompt];
  options.generate.sample = static_cast<int64_t>(index % count);
  const auto text =
      std::make_shared<GrowingText>(answer, index, *tokenizer_, texts.prompts[prompt], options);
  train::StreamRequest request{.prompt = texts.prompts[prompt],
                               .options = options.generate,
                               .scores = {.generated = is_scored,
                                          .prompt = is_scored && !texts.echoed.empty(),
                                          .top = texts.request.top_logprobs.value_or(0)}};
  request.on_token = [text](const train::ScoredToken& token) { return text->add(token); };
  request.on_prompt = [text](std::span<const train::ScoredToken> tokens) {
    text->part.prompt.assign(tokens.begin(), tokens.end());
    text->post();
  };
  request.on_end = [text] { text->end(); };
  request.on_error = [answer](const Error& error) { answer->fail(error.what()); };
  request.is_wanted = [answer] { return answer->is_wanted(); };
  return {std::move(request), answer};
}

std::unique_ptr<Reply> Service::begin(Texts texts) {
  const TextRequest& request = texts.request;
  train::GenerateOptions& sampling = texts.options.generate;
  const std::vector<int64_t> ends = std::move(sampling.eos);
  sampling = request.sampling;
  sampling.eos = eos_;
  sampling.eos.insert(sampling.eos.end(), ends.begin(), ends.end());
  sampling.seed = request.seed.value_or(random_number());

  const auto answer = std::make_shared<Answer>(Answer::Clock::now() + options_.time);
  const size_t count = texts.prompts.size() * static_cast<size_t>(request.count);
  const bool is_chat = texts.kind == ReplyKind::chat;
  ReplyFacts facts{.kind = texts.kind,
                   .id = fmt::format("{}-{:016x}{:04x}", is_chat ? "chatcmpl" : "cmpl",
                                     random_number(), ++replies_ & 0xFFFF),
                   .model = options_.name,
                   .created = std::time(nullptr),
                   .stream = request.stream,
                   .include_usage = request.include_usage,
                   .log_probs = request.top_logprobs.has_value(),
                   .texts = count};
  std::vector<TextJob> jobs;
  for (size_t i = 0; i < count; ++i) {
    const size_t prompt = i / static_cast<size_t>(request.count);
    jobs.push_back(job_of(texts, i, answer));
    if (!is_chat) facts.last_prompt_ids.push_back(texts.prompts[prompt].back());
    if (texts.echoed.empty()) continue;
    facts.prompts.push_back(texts.echoed[prompt]);
    if (facts.log_probs) facts.first_prompt_ids.push_back(texts.prompts[prompt][0]);
  }
  for (const auto& prompt : texts.prompts)
    facts.prompt_tokens += static_cast<int64_t>(prompt.size());
  auto reply = std::make_unique<Reply>(std::move(facts), answer, *tokenizer_);
  if (!engine_.submit(std::move(jobs)))
    throw RequestError(503, engine_.is_draining() ? "the server is shutting down"
                                                  : "the server is busy: its queue is full");
  if (!answer->wait_for_start())
    throw RequestError(503, answer->failure().empty() ? "the server is busy: the time was over"
                                                      : answer->failure());
  return reply;
}

void Service::write_model(json::Writer& out) const {
  out.begin_object().key("id").value(options_.name).key("object").value("model");
  out.key("created").value(created_).key("owned_by").value("binade");
  out.key("max_model_len").value(model_->config().context).end_object();
}

std::string Service::models() const {
  json::Writer out;
  out.begin_object().key("object").value("list").key("data").begin_array();
  write_model(out);
  return out.end_array().end_object().text();
}

std::string Service::model(std::string_view name) const {
  if (name != options_.name)
    throw RequestError(404, "model: expected " + options_.name + ", found " + shown_utf8(name),
                       "model", "model_not_found");
  json::Writer out;
  write_model(out);
  return out.text();
}

std::string Service::tokenize(std::string_view body) {
  const std::lock_guard lock(reading_);
  const TokenizeRequest request = parse_tokenize(body);
  std::vector<int64_t> ids;
  if (const auto* text = std::get_if<std::string>(&request.text)) {
    ids = request.add_special_tokens ? tokenizer_->encode_prompt(*text) : tokenizer_->encode(*text);
  } else {
    ids = ids_of(std::get<std::vector<data::Message>>(request.text));
  }
  json::Writer out;
  out.begin_object().key("count").value(static_cast<int64_t>(ids.size()));
  out.key("max_model_len").value(model_->config().context).key("tokens").begin_array();
  for (const int64_t id : ids) out.value(id);
  return out.end_array().end_object().text();
}

std::string Service::detokenize(std::string_view body) {
  const std::lock_guard lock(reading_);
  const std::vector<int64_t> ids = parse_detokenize(body);
  check_ids(ids, "tokens");
  const std::string text = shown_utf8(tokenizer_->decode(ids));
  json::Writer out;  // vLLM's name and llama.cpp's
  out.begin_object().key("prompt").value(text).key("content").value(text);
  return out.end_object().text();
}

std::string Service::tokenizer_info() const {
  json::Writer out;
  const auto write = [&](const char* name, const std::string& text) {
    out.key(name);
    text.empty() ? out.value(nullptr) : out.value(shown_utf8(text));
  };
  out.begin_object().key("tokenizer_class").value("binade");
  write("bos_token", chat_files_.tokens.bos);
  write("eos_token", chat_files_.tokens.eos);
  write("pad_token", "");
  write("chat_template", chat_files_.jinja);
  out.key("vocab_size").value(model_->config().vocab);
  return out.key("model_max_length").value(model_->config().context).end_object().text();
}

std::string Service::health() const {
  if (engine_.is_draining()) throw RequestError(503, "the server is shutting down");
  return R"({"status":"ok"})";
}

}  // namespace binade::serve
