#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "binade/base/error.h"
#include "binade/train/generate.h"
#include "binade/train/log_probs.h"

namespace binade::train {

// A prompt to be continued beside others.
struct StreamRequest {
  std::vector<int64_t> prompt;
  GenerateOptions options = {};
  ScoreOptions scores = {};  // scored prompts must fit the model's context
  // A generated token, scored if that is asked for. Ends the text by returning false.
  std::function<bool(const ScoredToken& token)> on_token;
  // The scored tokens of the prompt after its first, some at a time.
  std::function<void(std::span<const ScoredToken>)> on_prompt = {};
  std::function<void()> on_end;
  // An error of this text alone, such as logits that are no numbers: then only this text ends.
  // Without it the error ends all.
  std::function<void(const Error&)> on_error = {};
  // Asked between forwards whether the text is still wanted.
  std::function<bool()> is_wanted = {};
};

// Texts that grow together, each by a token in every step. On a CPU each is the text that
// generate() gives, whatever its company.
class StreamBatch {
 public:
  StreamBatch(nn::LanguageModel& model, int64_t at_once);
  ~StreamBatch();

  int64_t size() const { return static_cast<int64_t>(streams_.size()); }
  bool has_room() const { return size() < at_once_; }
  bool empty() const { return streams_.empty(); }
  // Fails for options out of range and a prompt that cannot be continued.
  void add(StreamRequest request);
  // A token more for each text, or a part of its prompt.
  void step();
  // Ends all texts.
  void clear();

 private:
  struct Stream;
  using Streams = std::vector<std::unique_ptr<Stream>>;

  bool feed_prompt(Stream& stream);
  std::vector<bool> feed_tokens(std::span<Stream* const> streams);

  nn::LanguageModel& model_;
  int64_t at_once_;
  Streams streams_;
};

// Continues the prompts that next() returns until it returns none, up to `at_once` of them in each
// forward: when a text ends, the next prompt takes its place.
void generate_streams(nn::LanguageModel& model, int64_t at_once,
                      const std::function<std::optional<StreamRequest>()>& next);

struct GeneratedText {
  std::vector<int64_t> tokens;   // without the prompt
  std::vector<float> log_probs;  // of the tokens
};

// Continues each prompt `count` times: the texts of the first prompt, of the second, ... Text i is
// sample options.sample + i of the seed, and the same whatever `at_once` is.
std::vector<GeneratedText> generate_texts(nn::LanguageModel& model,
                                          std::span<const std::vector<int64_t>> prompts,
                                          int64_t count, const GenerateOptions& options,
                                          int64_t at_once = 64);

}  // namespace binade::train
