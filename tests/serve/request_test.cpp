#include "binade/serve/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/json.h"

namespace binade::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t most_texts = 8;

std::string refusal_of(std::string_view body, bool is_chat = false) {
  try {
    is_chat ? (void)parse_chat(body, most_texts) : (void)parse_completion(body, most_texts);
  } catch (const RequestError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return "accepted";
}

TEST(CompletionRequests, HaveOpenAisDefaults) {
  const CompletionRequest request = parse_completion(R"({"prompt": "a"})", most_texts);
  EXPECT_THAT(request.prompts, ElementsAre(Prompt("a")));
  EXPECT_EQ(request.text.count, 1);
  EXPECT_EQ(request.text.sampling.temperature, 1);
  EXPECT_EQ(request.text.sampling.top_k, 0);
  EXPECT_EQ(request.text.sampling.top_p, 1);
  EXPECT_FALSE(request.text.max_tokens || request.text.seed || request.text.top_logprobs);
  EXPECT_FALSE(request.echo || request.text.stream);
}

TEST(CompletionRequests, TakePromptsInEachForm) {
  const auto prompts = [](const std::string& prompt) {
    return parse_completion("{\"prompt\": " + prompt + "}", most_texts).prompts;
  };
  using Ids = std::vector<int64_t>;
  EXPECT_THAT(prompts(R"(["a", "bc"])"), ElementsAre(Prompt("a"), Prompt("bc")));
  EXPECT_THAT(prompts("[1, 2]"), ElementsAre(Prompt(Ids{1, 2})));
  EXPECT_THAT(prompts("[[1, 2]]"), ElementsAre(Prompt(Ids{1, 2})));
  EXPECT_THAT(prompts("[[1], [2, 3]]"), ElementsAre(Prompt(Ids{1}), Prompt(Ids{2, 3})));
}

TEST(CompletionRequests, KeepEveryMember) {
  const CompletionRequest request = parse_completion(
      R"({"model": "any", "prompt": [7], "n": 2, "best_of": 2, "max_tokens": 0, "temperature": 0,
          "top_p": 0.5, "top_k": -1, "seed": -3, "stop": ["x", ""], "stream": true, "echo": true,
          "stream_options": {"include_usage": true}, "logprobs": 5, "suffix": null,
          "presence_penalty": 0, "logit_bias": {}, "user": "someone"})",
      most_texts);
  EXPECT_EQ(request.text.count, 2);
  EXPECT_EQ(request.text.max_tokens, 0);
  EXPECT_EQ(request.text.sampling.temperature, 0);
  EXPECT_EQ(request.text.sampling.top_p, 0.5);
  EXPECT_EQ(request.text.sampling.top_k, 0);
  EXPECT_EQ(request.text.seed, static_cast<uint64_t>(-3));
  EXPECT_THAT(request.text.stops, ElementsAre("x"));
  EXPECT_TRUE(request.text.stream && request.text.include_usage && request.echo);
  EXPECT_EQ(request.text.top_logprobs, 5);
}

TEST(CompletionRequests, AreRefusedWithTheMemberAtFault) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "body at byte 0"},
      {"[1]", "expected an object"},
      {"{}", "prompt"},
      {R"({"prompt": 1})", "prompt"},
      {R"({"prompt": []})", "an empty list"},
      {R"({"prompt": [1, "a"]})", "prompt[1]"},
      {R"({"prompt": ["a", [1]]})", "prompt[1]"},
      {R"({"prompt": [-1]})", "prompt[0]"},
      {R"({"prompt": [[1, 2.5]]})", "prompt[0][1]"},
      {R"({"prompt": ["","","","","","","","",""]})", "at most 8 prompts"},
      {R"({"prompt": ["", "", ""], "n": 3})", "at most 8 texts"},
      {R"({"prompt": "", "n": 0})", "(n)"},
      {R"({"prompt": "", "n": 9})", "(n)"},
      {R"({"prompt": "", "max_tokens": -1})", "max_tokens"},
      {R"({"prompt": "", "temperature": -0.1})", "temperature"},
      {R"({"prompt": "", "temperature": "hot"})", "temperature"},
      {R"({"prompt": "", "top_p": 0})", "top_p"},
      {R"({"prompt": "", "top_p": 1.5})", "top_p"},
      {R"({"prompt": "", "logprobs": 21})", "logprobs"},
      {R"({"prompt": "", "stop": [1]})", "stop[0]"},
      {R"({"prompt": "", "stream": "yes"})", "stream"},
      {R"({"prompt": "", "presence_penalty": 1})", "penalties are not supported"},
      {R"({"prompt": "", "logit_bias": {"5": 1}})", "not supported"},
      {R"({"prompt": "", "prompt": ""})", "prompt"},
  };
  for (const auto& [body, message] : cases)
    EXPECT_THAT(refusal_of(body), HasSubstr(message)) << body;
}

TEST(ChatRequests, TakeTextsAndPartsThatAreTexts) {
  const ChatRequest request = parse_chat(
      R"({"messages": [{"role": "developer", "content": "be brief"},
          {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
          {"role": "assistant", "content": null}],
          "logprobs": true, "top_logprobs": 2, "max_completion_tokens": 4})",
      most_texts);
  ASSERT_EQ(request.messages.size(), 3u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "ab");
  EXPECT_EQ(request.messages[2].content, "");
  EXPECT_EQ(request.text.top_logprobs, 2);
  EXPECT_EQ(request.text.max_tokens, 4);
}

TEST(ChatRequests, AreRefusedWithTheMemberAtFault) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": []})", "at least one message"},
      {R"({"messages": [{"role": "user"}]})", "content"},
      {R"({"messages": [{"content": "a"}]})", "role"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "\"text\""},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}]})", "not supported"},
      {R"({"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json"}})",
       "response_format"},
  };
  for (const auto& [body, message] : cases)
    EXPECT_THAT(refusal_of(body, true), HasSubstr(message)) << body;
}

TEST(TokenizeRequests, HaveTheNamesOfBothServers) {
  const TokenizeRequest vllm = parse_tokenize(R"({"prompt": "a"})");
  EXPECT_EQ(std::get<std::string>(vllm.text), "a");
  EXPECT_TRUE(vllm.add_special_tokens);
  EXPECT_FALSE(
      parse_tokenize(R"({"prompt": "a", "add_special_tokens": false})").add_special_tokens);
  const TokenizeRequest llama = parse_tokenize(R"({"content": "b"})");
  EXPECT_EQ(std::get<std::string>(llama.text), "b");
  EXPECT_FALSE(llama.add_special_tokens);
  EXPECT_TRUE(parse_tokenize(R"({"content": "b", "add_special": true})").add_special_tokens);
  EXPECT_EQ(std::get<1>(parse_tokenize(R"({"messages": [{"role": "user", "content": "c"}]})").text)
                .size(),
            1u);
  EXPECT_THAT(parse_detokenize(R"({"tokens": [3, 1]})"), ElementsAre(3, 1));
  EXPECT_THROW(parse_detokenize(R"({"tokens": [3.5]})"), RequestError);
}

TEST(RequestErrors, HaveOpenAisShape) {
  const json::Document document =
      json::parse(RequestError(400, "bad \"n\"", "n").json(), {"test", "error"});
  const json::Value& error = document.root().at("error");
  EXPECT_EQ(error.at("message").string(), "bad \"n\"");
  EXPECT_EQ(error.at("type").string(), "invalid_request_error");
  EXPECT_EQ(error.at("param").string(), "n");
  EXPECT_TRUE(error.at("code").is_null());
}

}  // namespace
}  // namespace binade::serve
