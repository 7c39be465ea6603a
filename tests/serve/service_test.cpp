#include "binade/serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <thread>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/io/huggingface.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/shape/shape.h"
#include "io/temporary_folder.h"

namespace binade::serve {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t context = 64, vocab = 256;  // of bytes

// A service of a small model of bytes.
class Services : public ::testing::Test {
 protected:
  Services() : model_(config()) {
    const NoGrad no_grad;
    uint64_t stream = 0;
    // Larger weights than a fresh model's, so that its choices depend on the text.
    for (const Tensor& parameter : model_.parameters())
      add_(parameter, randn(parameter.shape(), {5, stream++}), 0.2);
    io::save_pretrained(model_, folder_.path());
    start({.streams = 4, .queue = 64});
  }

  static nn::GPTConfig config() {
    return {.layers = 2, .width = 32, .heads = 4, .vocab = vocab, .context = context};
  }

  void start(const Engine::Options& engine, std::chrono::seconds time = std::chrono::seconds(60)) {
    service_.reset();
    service_ = std::make_unique<Service>(
        io::load_pretrained(folder_.path()), folder_.path(),
        Service::Options{
            .engine = engine, .name = "bytes", .time = time, .chat = data::ChatFormat::chatml});
  }

  static std::string body_of(Reply& reply) {
    std::string body;
    const bool is_complete = reply.write_to({.write =
                                                 [&](std::string_view text) {
                                                   body += text;
                                                   return true;
                                                 },
                                             .is_there = [] { return true; }});
    EXPECT_TRUE(is_complete);
    return body;
  }
  json completion(const json& request) {
    return json::parse(body_of(*service_->complete(request.dump())));
  }
  json chat(const json& request) { return json::parse(body_of(*service_->chat(request.dump()))); }

  static std::vector<json> events_of(Reply& reply) {
    EXPECT_STREQ(reply.content_type(), "text/event-stream");
    std::vector<json> events;
    std::string body = body_of(reply);
    for (size_t at = 0; at < body.size();) {
      const size_t end = body.find("\n\n", at);
      const std::string event = body.substr(at, end - at);
      at = end + 2;
      EXPECT_TRUE(event.starts_with("data: "));
      if (event == "data: [DONE]") {
        EXPECT_EQ(at, body.size());
      } else {
        events.push_back(json::parse(event.substr(6)));
      }
    }
    return events;
  }

  int status_of(const json& request) {
    try {
      service_->complete(request.dump());
    } catch (const RequestError& error) {
      message_ = error.what();
      return error.status;
    }
    return 200;
  }

  testing::TemporaryFolder folder_;
  nn::GPT model_;
  std::unique_ptr<Service> service_;
  std::string message_;
};

// A tokenizer whose tokens are the words "w0" to "w255".
std::string tokenizer_of_words() {
  json tokens;
  for (int64_t id = 0; id < vocab; ++id) tokens["w" + std::to_string(id)] = id;
  const json tokenizer = {
      {"version", "1.0"},
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "w0"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", tokens}}}};
  return tokenizer.dump();
}

// A completion goes on with its prompt, an answer stands alone.
TEST_F(Services, WordsBehindAPromptKeepTheirSpace) {
  folder_.put("tokenizer.json", tokenizer_of_words());
  start({.streams = 4, .queue = 64});
  const auto joined = [](const json& tokens) {
    std::string text;
    for (const json& token : tokens) text += token.get<std::string>();
    return text;
  };
  json request = {{"prompt", "w7 w8"}, {"max_tokens", 3}, {"seed", 3}, {"logprobs", 0}};
  const json choice = completion(request)["choices"][0];
  EXPECT_THAT(choice["text"].get<std::string>(), ::testing::MatchesRegex("( w[0-9]+){3}"));
  EXPECT_EQ(joined(choice["logprobs"]["tokens"]), choice["text"].get<std::string>());
  request["echo"] = true;
  const json echoed = completion(request)["choices"][0];
  EXPECT_EQ(echoed["text"], "w7 w8" + choice["text"].get<std::string>());
  EXPECT_EQ(joined(echoed["logprobs"]["tokens"]), echoed["text"].get<std::string>());

  const json answer = chat({{"messages", {{{"role", "user"}, {"content", "w7"}}}},
                            {"max_tokens", 3},
                            {"logprobs", true}})["choices"][0];
  const std::string text = answer["message"]["content"];
  EXPECT_THAT(text, ::testing::MatchesRegex("w[0-9]+( w[0-9]+)*"));
  std::string tokens;
  for (const json& token : answer["logprobs"]["content"]) tokens += token["token"];
  EXPECT_EQ(tokens, text);
}

TEST_F(Services, EchoAndScoreAPromptAsTheHarnessAsks) {
  const json reply = completion({{"model", "bytes"},
                                 {"prompt", {{65, 66, 67, 200}}},
                                 {"temperature", 0},
                                 {"max_tokens", 1},
                                 {"logprobs", 1},
                                 {"seed", 1234},
                                 {"echo", true}});
  const json& choice = reply["choices"][0];
  const json& lists = choice["logprobs"];
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
    ASSERT_EQ(lists[name].size(), 5u) << name;
  EXPECT_TRUE(lists["token_logprobs"][0].is_null());
  EXPECT_EQ(lists["tokens"][3], "bytes:\\xc8");
  EXPECT_EQ(lists["text_offset"], json({0, 1, 2, 3, 4}));
  // The same as the model's loss says.
  const int64_t ids[] = {65, 66, 67, 200};
  const Tensor tokens = tensor(std::span<const int64_t>(ids), {1, 4});
  double sum = 0;
  for (int i = 1; i < 4; ++i) sum += lists["token_logprobs"][i].get<double>();
  const double loss =
      model_.loss(slice(tokens, 1, 0, 3), slice(tokens, 1, 1, 4), {.reduce = Reduce::sum}).item();
  EXPECT_NEAR(-sum, loss, 1e-5);
  // The most likely token was taken: its log-probability is the greatest.
  double best = -1e9;
  for (const auto& [text, log_prob] : lists["top_logprobs"][4].items())
    best = std::max(best, log_prob.get<double>());
  EXPECT_EQ(best, lists["token_logprobs"][4].get<double>());
  EXPECT_TRUE(choice["text"].get<std::string>().starts_with("ABC"));
  EXPECT_EQ(reply["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(reply["usage"]["completion_tokens"], 1);
  EXPECT_EQ(reply["object"], "text_completion");
}

TEST_F(Services, ScoreAPromptAlone) {
  const json reply = completion(
      {{"prompt", std::string(context, 'a')}, {"max_tokens", 0}, {"logprobs", 0}, {"echo", true}});
  EXPECT_EQ(reply["choices"][0]["logprobs"]["tokens"].size(), static_cast<size_t>(context));
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["choices"][0]["text"], std::string(context, 'a'));
}

TEST_F(Services, AnswerManyClientsAsTheyAnswerOne) {
  const auto request = [](int i) {
    return json{
        {"prompt", std::string(static_cast<size_t>(1 + i * 7 % 40), static_cast<char>('a' + i))},
        {"max_tokens", 1 + i * 5 % 20},
        {"n", 1 + i % 2},
        {"logprobs", i % 3},
        {"echo", i % 3 == 1},
        {"seed", i}};
  };
  constexpr int clients = 24;
  std::vector<json> alone(clients), together(clients);
  for (int i = 0; i < clients; ++i) alone[i] = completion(request(i))["choices"];
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i)
    threads.emplace_back([&, i] { together[i] = completion(request(i))["choices"]; });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < clients; ++i) EXPECT_EQ(together[i], alone[i]) << i;
  EXPECT_NE(alone[1][0]["text"], alone[1][1]["text"]);  // samples of one prompt differ
}

TEST_F(Services, StreamTheTextOfTheWholeAnswer) {
  json request = {{"prompt", "hello"}, {"max_tokens", 40}, {"seed", 3}, {"logprobs", 2}, {"n", 2}};
  const json whole = completion(request);
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  std::string texts[2];
  json tokens[2] = {json::array(), json::array()}, reasons[2];
  const std::vector<json> events = events_of(*service_->complete(request.dump()));
  for (const json& event : events) {
    for (const json& choice : event["choices"]) {
      const int index = choice["index"];
      texts[index] += choice["text"].get<std::string>();
      for (const json& one : choice["logprobs"]["token_logprobs"]) tokens[index].push_back(one);
      EXPECT_TRUE(reasons[index].is_null());
      reasons[index] = choice["finish_reason"];
    }
  }
  EXPECT_GT(events.size(), 6u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(texts[i], whole["choices"][i]["text"].get<std::string>());
    EXPECT_EQ(tokens[i], whole["choices"][i]["logprobs"]["token_logprobs"]);
    EXPECT_EQ(reasons[i], "length");
  }
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_EQ(events.back()["usage"], whole["usage"]);
}

TEST_F(Services, ChatInChunksWithARole) {
  json request = {{"messages", {{{"role", "user"}, {"content", "hi"}}}},
                  {"max_tokens", 6},
                  {"seed", 3},
                  {"logprobs", true},
                  {"top_logprobs", 1}};
  const json whole = chat(request);
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(whole["choices"][0]["logprobs"]["content"].size(), 6u);
  EXPECT_EQ(whole["choices"][0]["logprobs"]["content"][0]["bytes"].size(), 1u);
  request["stream"] = true;
  std::string text;
  const std::vector<json> events = events_of(*service_->chat(request.dump()));
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
  for (const json& event : events) text += event["choices"][0]["delta"].value("content", "");
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"].get<std::string>());
}

TEST_F(Services, EndBeforeAStopText) {
  const json request = {{"prompt", "hello"}, {"max_tokens", 40}, {"seed", 3}};
  const std::string text = completion(request)["choices"][0]["text"];
  // A character in the middle that does not come earlier.
  size_t at = 8;
  while (text.find(text[at]) != at || (text[at] & 0x80) != 0) ++at;
  json stopped = request;
  stopped["stop"] = {"no such text", text.substr(at, 1)};
  const json choice = completion(stopped)["choices"][0];
  EXPECT_EQ(choice["text"], text.substr(0, at));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST_F(Services, RefuseWhatDoesNotFit) {
  EXPECT_EQ(status_of({{"prompt", std::string(60, 'a')}, {"max_tokens", 5}}), 400);
  EXPECT_THAT(message_, HasSubstr("context of 64"));
  EXPECT_EQ(status_of({{"prompt", std::string(64, 'a')}}), 400);
  EXPECT_EQ(status_of({{"prompt", {256}}}), 400);
  EXPECT_THAT(message_, HasSubstr("below the vocabulary of 256, found 256"));
  EXPECT_EQ(status_of({{"prompt", ""}}), 400);
  EXPECT_EQ(status_of({{"prompt", std::string(63, 'a')}}), 200);
}

TEST_F(Services, RefuseMoreThanTheQueueHolds) {
  start({.streams = 1, .queue = 2});
  // Four clients ask for two texts at a time, which fill the queue, until one is refused.
  const json request = {{"prompt", "a"}, {"max_tokens", 20}, {"n", 2}};
  std::vector<std::thread> clients;
  std::atomic<int> refused = 0, short_answers = 0;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&] {
      for (int i = 0; i < 1000 && refused == 0; ++i) {
        try {
          short_answers += completion(request)["choices"].size() != 2;
        } catch (const RequestError& error) {
          refused += error.status == 503 &&
                     std::string_view(error.what()).find("queue is full") != std::string::npos;
          return;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(refused, 0);
  EXPECT_EQ(short_answers, 0);
}

// A client that is gone gives its place to the next.
TEST_F(Services, EndTheTextsOfVanishedClients) {
  start({.streams = 1, .queue = 8});
  for (int i = 0; i < 5; ++i) {
    const auto reply = service_->complete(json{{"prompt", "a"}, {"max_tokens", 63}}.dump());
    const auto gone = [](std::string_view) { return false; };
    EXPECT_FALSE(reply->write_to({.write = gone, .is_there = [] { return false; }}));
  }
  EXPECT_EQ(completion({{"prompt", "a"}, {"max_tokens", 3}})["usage"]["completion_tokens"], 3);
}

TEST_F(Services, AnswerWhatTheyBeganWhenTheyDrain) {
  start({.streams = 1, .queue = 8});
  const json request = {{"prompt", "a"}, {"max_tokens", 50}, {"seed", 1}};
  const json expected = completion(request)["choices"];
  const auto reply = service_->complete(request.dump());
  service_->drain();
  EXPECT_EQ(status_of(request), 503);
  EXPECT_THROW(service_->health(), RequestError);
  EXPECT_EQ(json::parse(body_of(*reply))["choices"], expected);
}

// Logits that are NaN from some position on fail the texts that reach it, and no others.
TEST_F(Services, FailTheTextThatCannotBeGenerated) {
  constexpr int64_t position = 40;
  const json request = {{"prompt", "ab"}, {"max_tokens", position - 2}, {"seed", 1}};
  const NoGrad no_grad;
  fill_(slice(model_.state_dict().at("positions.weight"), 0, position, context),
        std::numeric_limits<double>::quiet_NaN());
  io::save_pretrained(model_, folder_.path());
  start({.streams = 4, .queue = 64});
  const auto good = service_->complete(request.dump());
  for (const bool stream : {false, true}) {
    const auto bad = service_->complete(json{
        {"prompt", "ab"},
        {"max_tokens", position},
        {"top_p", 0.5},
        {"stream", stream}}.dump());
    std::string body;
    const auto write = [&body](std::string_view text) {
      body += text;
      return true;
    };
    EXPECT_FALSE(bad->write_to({.write = write, .is_there = [] { return true; }}));
    EXPECT_EQ(body.find("the model's logits") != std::string::npos, stream);
    EXPECT_THAT(body, Not(HasSubstr(R"("length")")));
  }
  EXPECT_EQ(json::parse(body_of(*good))["usage"]["completion_tokens"], position - 2);
}

TEST_F(Services, TellTheirModelAndTokens) {
  const json models = json::parse(service_->models());
  EXPECT_EQ(models["data"][0]["id"], "bytes");
  EXPECT_EQ(json::parse(service_->model("bytes"))["max_model_len"], context);
  EXPECT_THROW(service_->model("other"), RequestError);
  EXPECT_EQ(json::parse(service_->tokenize(R"({"prompt": "ab"})"))["tokens"], json({97, 98}));
  EXPECT_EQ(json::parse(service_->detokenize(R"({"tokens": [97, 200]})"))["prompt"],
            "a\xEF\xBF\xBD");
  EXPECT_THROW(service_->detokenize(R"({"tokens": [97, 256]})"), RequestError);
  EXPECT_TRUE(json::parse(service_->tokenizer_info()).contains("eos_token"));
}

}  // namespace
}  // namespace binade::serve
