#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/data/tokenizer.h"
#include "binade/train/generate.h"

namespace binade::train {

// Ends a stream of text before the first of several stop strings. Text that may be the beginning of
// one is held back until it is known.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that can be shown after `text` has arrived; empty once the stream has ended.
  std::string add(std::string_view text);
  // The text held back, which no stop string followed.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

// Why a text ended.
enum class Finish : uint8_t { length, eos, stop, interrupted };
std::string_view name(Finish finish);

struct Continuation {
  std::string text;    // bytes, without the prompt, the stop string and the EOS token
  int64_t tokens = 0;  // generated, including those of the stop string and the EOS token
  Finish finish = Finish::length;
};

struct ContinuationOptions {
  GenerateOptions generate = {};
  std::vector<std::string> stops = {};
  // The text is shown by itself, not behind its prompt: it may lose a space at the beginning.
  bool is_answer = false;
  // Asked after every token whether to end the text, for example after Ctrl-C.
  bool (*interrupted)() = nullptr;
};

// The text of tokens that a model generates, which ends before a stop string or an EOS id.
class ContinuedText {
 public:
  // `show`, if given, is called with each new part of the text.
  ContinuedText(const data::Tokenizer& tokenizer, std::span<const int64_t> prompt,
                const ContinuationOptions& options,
                std::function<void(std::string_view)> show = {});

  // Returns whether the text goes on.
  bool add(int64_t token);
  // Once, after the last token.
  Continuation finish();

 private:
  void append(const std::string& text);

  const data::Tokenizer& tokenizer_;
  ContinuationOptions options_;
  std::function<void(std::string_view)> show_;
  StopText stop_;
  // A token's text may depend on earlier tokens, so all are decoded each time, behind the end of
  // the prompt, and only the new part is added.
  std::vector<int64_t> ids_;
  std::string decoded_;
  Continuation result_;
};

// Continues a prompt by text. `show` is called with each new part of it.
Continuation continue_text(nn::LanguageModel& model, const data::Tokenizer& tokenizer,
                           const std::vector<int64_t>& prompt, const ContinuationOptions& options,
                           FunctionRef<void(std::string_view)> show);

// The ids that end a text: those of the folder's generation_config.json, as in transformers, or
// else the model's own.
std::vector<int64_t> eos_ids(const std::filesystem::path& folder,
                             const nn::LanguageModelConfig& config);

// The EOS ids of a generation_config.json's text; `file` is for messages.
std::vector<int64_t> parse_eos_ids(std::string_view generation_config, const std::string& file,
                                   const nn::LanguageModelConfig& config);

}  // namespace binade::train
