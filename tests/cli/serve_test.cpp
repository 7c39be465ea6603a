#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/command.h"
#include "cli/http_client.h"
#include "cli/process.h"
#include "io/temporary_folder.h"

// binade serve as clients see it: by HTTP.
namespace binade::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Serve : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    served_ = new testing::TemporaryFolder;
    const Outcome outcome = binade(
        "train --quiet --layers 1 --width 16 --heads 2 --context 256 --batch 2 --eval-batches 1 "
        "--sample 0 --threads 1 --steps 3 --out " +
        quoted((*served_ / "run").string()));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  static void TearDownTestSuite() { delete served_; }

  // Starts the server; the test is skipped by a program that has none.
  void start(std::vector<std::string> options = {"--name", "tiny"}) {
    log_ = *served_ / "serve.log";
    std::filesystem::remove(log_);
    std::vector<std::string> words = {BINADE_EXECUTABLE, "serve", (*served_ / "run").string(),
                                      "--port", "0"};
    words.insert(words.end(), options.begin(), options.end());
    server_ = std::make_unique<Process>(words, log_);
    for (int i = 0; i < 3000 && server_->running() && port_ == 0; ++i) {
      const std::string text = log();
      const size_t at = text.find("127.0.0.1:");
      if (at != std::string::npos && text.find(' ', at) != std::string::npos)
        port_ = std::atoi(text.c_str() + at + 10);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (log().find("expected an HTTP library") != std::string::npos) GTEST_SKIP() << log();
    ASSERT_GT(port_, 0) << log();
  }

  std::string log() const {
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }

  json complete(const json& request) const {
    const HttpAnswer answer = http_post(port_, "/v1/completions", request.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.is_whole);
    return json::parse(answer.body);
  }

  static testing::TemporaryFolder* served_;
  std::filesystem::path log_;
  std::unique_ptr<Process> server_;
  int port_ = 0;
};
testing::TemporaryFolder* Serve::served_ = nullptr;

TEST_F(Serve, AnswersEveryPath) {
  start();
  if (IsSkipped()) return;
  EXPECT_EQ(json::parse(http_get(port_, "/health").body)["status"], "ok");
  EXPECT_EQ(json::parse(http_get(port_, "/v1/models").body)["data"][0]["id"], "tiny");
  EXPECT_EQ(json::parse(http_get(port_, "/v1/models/tiny").body)["object"], "model");
  EXPECT_EQ(http_get(port_, "/v1/models/other").status, 404);
  EXPECT_TRUE(json::parse(http_get(port_, "/tokenizer_info").body).contains("eos_token"));
  const json ids = json::parse(http_post(port_, "/tokenize", R"({"prompt": "the"})").body);
  EXPECT_GT(ids["count"], 0);
  const json text =
      json::parse(http_post(port_, "/detokenize", json{{"tokens", ids["tokens"]}}.dump()).body);
  EXPECT_EQ(text["prompt"], "the");
  EXPECT_EQ(complete({{"prompt", "the"}, {"max_tokens", 3}})["usage"]["completion_tokens"], 3);
  const HttpAnswer events =
      http_post(port_, "/v1/completions", R"({"prompt": "the", "max_tokens": 3, "stream": true})");
  EXPECT_THAT(events.head, HasSubstr("text/event-stream"));
  EXPECT_TRUE(events.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(Serve, RefusesWhatIsNoRequest) {
  start({"--max-body", "1"});
  if (IsSkipped()) return;
  const HttpAnswer missing = http_get(port_, "/v2");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(json::parse(missing.body)["error"]["message"], HasSubstr("GET /v2"));
  const std::string bodies[] = {"",
                                "{",
                                "\xff\xfe",
                                "[]",
                                std::string(1000, '['),
                                "{\"prompt\":",
                                R"({"prompt": {}})",
                                std::string("\0\0", 2)};
  for (const std::string& body : bodies) {
    const HttpAnswer answer = http_post(port_, "/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(json::parse(answer.body)["error"]["type"], "invalid_request_error");
  }
  const HttpAnswer large = http_post(port_, "/tokenize", std::string((1 << 20) + 1, 'a'));
  EXPECT_TRUE(large.status == 413 || large.status == 0) << large.status;
  EXPECT_EQ(http_post(port_, "/tokenize", "{}", "Content-Encoding: gzip\r\n").status, 415);
  {
    const Connection connection(port_);
    connection.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    EXPECT_EQ(connection.answer().status, 411);
  }
  for (const char* garbage :
       {"\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02", "POST / HTTP/9\r\n\r\n"}) {
    const Connection connection(port_);
    connection.send(garbage);
  }
  EXPECT_EQ(http_get(port_, "/health").status, 200);
}

// As curl's -d calls it, which the library takes for a form of 8 KiB at most.
TEST_F(Serve, TakesALongBodyThatIsCalledAForm) {
  start();
  if (IsSkipped()) return;
  const std::string body = json{{"prompt", std::string(20'000, 'a')}}.dump();
  const HttpAnswer answer =
      http_post(port_, "/tokenize", body, "Content-Type: application/x-www-form-urlencoded\r\n");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_GT(json::parse(answer.body)["count"], 1);
}

// A body of no stated length has no limit, and what is not read of one must not be taken for the
// next request: such a connection is refused at once and closed.
TEST_F(Serve, RefusesBodiesOfUncertainLength) {
  start();
  if (IsSkipped()) return;
  const std::string next = "GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  const std::pair<const char*, int> heads[] = {
      {"POST /v1/completions HTTP/1.1\r\n", 411},
      {"POST /none HTTP/1.1\r\n", 411},
      {"PUT /v1/completions HTTP/1.1\r\n", 411},
      {"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", 411},
      {"POST /tokenize HTTP/1.1\r\nContent-Length: -1\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nContent-Length: 0x10\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n", 400},
      {"GET /health HTTP/1.1\r\nContent-Length: 5\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nContent-Length: 9\r\nContent-Type: multipart/form-data; "
       "boundary=a\r\n",
       415}};
  for (const auto& [head, status] : heads) {
    const Connection connection(port_);
    connection.send(std::string(head) + "Host: a\r\n\r\n");
    const HttpAnswer answer = connection.answer();  // up to the connection's end
    EXPECT_EQ(answer.status, status) << head;
    EXPECT_TRUE(json::parse(answer.body).contains("error")) << answer.body;
    connection.send(next);
    EXPECT_EQ(connection.receive(1), "") << head;
  }
}

TEST_F(Serve, IsNamedAfterTheFolderThatIsGiven) {
  start({});
  if (IsSkipped()) return;
  EXPECT_EQ(json::parse(http_get(port_, "/v1/models").body)["data"][0]["id"], "run");
}

TEST_F(Serve, RefusesEmptyValues) {
  const std::string serve = "serve " + quoted((*served_ / "run").string()) + " --port 0 ";
  for (const char* option : {"--host", "--api-key"}) {
    const Outcome outcome = binade(serve + option + " ''");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string(option) + ": expected a value"));
  }
}

TEST_F(Serve, AsksForItsKey) {
  start({"--api-key", "secret"});
  if (IsSkipped()) return;
  EXPECT_EQ(http_get(port_, "/health").status, 200);
  EXPECT_EQ(http_get(port_, "/v1/models").status, 401);
  EXPECT_EQ(http_get(port_, "/v1/models", "Authorization: Bearer secre\r\n").status, 401);
  EXPECT_EQ(http_get(port_, "/v1/models", "Authorization: Bearer secret2\r\n").status, 401);
  EXPECT_EQ(http_get(port_, "/v1/models", "Authorization: Bearer secret\r\n").status, 200);
}

// Clients that ask at the same time, beside some that vanish, that do not read, and that send
// garbage: every answer is the one that a lone client gets.
TEST_F(Serve, AnswersACrowdAsItAnswersOne) {
  start({"--streams", "6", "--queue", "200"});
  if (IsSkipped()) return;
  constexpr int clients = 24, kinds = 6;
  const auto request = [](int kind) {
    return json{{"prompt", std::string(static_cast<size_t>(1 + 9 * kind), 'a')},
                {"max_tokens", 3 + 5 * kind},
                {"seed", kind},
                {"logprobs", 1},
                {"echo", kind % 2 == 0}};
  };
  std::vector<json> alone;
  for (int kind = 0; kind < kinds; ++kind) alone.push_back(complete(request(kind))["choices"]);
  const json endless = {{"prompt", "a"}, {"max_tokens", 250}, {"stream", true}, {"seed", 1}};
  const Connection reads_nothing(port_);
  reads_nothing.send(http_request("POST", "/v1/completions", endless.dump()));
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        const int kind = (i + round) % kinds;
        if (i % 6 == 5) {
          const Connection vanishes(port_);
          vanishes.send(
              http_request("POST", "/v1/completions", endless.dump()).substr(0, 90 + 40 * i));
          if (round == 1) vanishes.receive(50);
        } else if (i % 6 == 4) {
          EXPECT_EQ(http_post(port_, "/v1/completions", "garbage").status, 400);
        } else {
          EXPECT_EQ(complete(request(kind))["choices"], alone[static_cast<size_t>(kind)]);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(http_get(port_, "/health").status, 200);
}

TEST_F(Serve, LetsRunningAnswersEndWhenItIsStopped) {
  start();
  if (IsSkipped()) return;
  const Connection running(port_);
  running.send(http_request("POST", "/v1/completions",
                            R"({"prompt": "a", "max_tokens": 250, "stream": true, "seed": 1})"));
  const std::string begun = running.receive(10);  // it has been begun
  server_->send(SIGTERM);
  const HttpAnswer rest = running.answer();
  EXPECT_TRUE(begun.starts_with("HTTP/1.1")) << begun;
  EXPECT_TRUE(rest.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(server_->wait(), 0) << log();
  EXPECT_THAT(log(), HasSubstr("SIGTERM: no new requests"));
}

TEST_F(Serve, SaysWhyItCannotListen) {
  start();
  if (IsSkipped()) return;
  const Outcome taken =
      binade("serve " + quoted((*served_ / "run").string()) + " --port " + std::to_string(port_));
  EXPECT_EQ(taken.status, 2);
  EXPECT_THAT(taken.err, HasSubstr("expected an address of this machine with a free port"));
}

}  // namespace
}  // namespace binade::cli
