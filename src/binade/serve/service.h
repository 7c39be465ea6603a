#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "binade/data/chat/chat_files.h"
#include "binade/data/tokenizer.h"
#include "binade/serve/engine.h"
#include "binade/serve/reply.h"
#include "binade/serve/request.h"

namespace binade::serve {

// The text with U+FFFD for what is not UTF-8.
std::string shown_utf8(std::string_view bytes);

// A model that answers requests of OpenAI's interface; the transport is its caller's. Its functions
// may be called from any thread, and throw a RequestError for a request that is refused.
class Service {
 public:
  struct Options {
    Engine::Options engine = {};
    std::string name = {};           // of the model
    int64_t max_texts = 64;          // of one request: prompts times n
    int64_t max_tokens = 0;          // of one text; 0: as many as fit the model's context
    std::chrono::seconds time{600};  // that an answer may take, in the queue and out of it
    std::optional<data::ChatFormat> chat = {};  // none: that of the model's template
  };

  // The model's folder has its tokenizer and chat template.
  Service(std::unique_ptr<nn::LanguageModel> model, const std::filesystem::path& folder,
          Options options);

  // Return when the first text has been begun.
  std::unique_ptr<Reply> complete(std::string_view body);
  std::unique_ptr<Reply> chat(std::string_view body);

  std::string models() const;
  std::string model(std::string_view name) const;
  std::string tokenize(std::string_view body);
  std::string detokenize(std::string_view body);
  std::string tokenizer_info() const;
  std::string health() const;

  // From now on refuses requests for texts; those that were begun are answered.
  void drain() { engine_.drain(); }
  const Options& options() const { return options_; }

 private:
  struct Texts;

  std::vector<int64_t> ids_of(const Prompt& prompt) const;
  std::vector<int64_t> ids_of(const std::vector<data::Message>& messages) const;
  // Fails, naming the member of the request, for ids that the model does not have.
  void check_ids(const std::vector<int64_t>& ids, const std::string& param) const;
  int64_t tokens_of(const TextRequest& request, const std::vector<int64_t>& prompt,
                    int64_t otherwise) const;
  std::unique_ptr<Reply> begin(Texts texts);
  TextJob job_of(const Texts& texts, size_t index, const std::shared_ptr<Answer>& answer) const;
  void write_model(json::Writer& out) const;

  const Options options_;
  const int64_t created_;
  std::unique_ptr<nn::LanguageModel> model_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
  data::ChatFiles chat_files_;
  std::optional<data::ChatTemplate> chat_;
  std::string chat_error_;  // of a template that does not run
  std::vector<int64_t> eos_;
  // Bodies are read one at a time: a small text can be a large document.
  std::mutex reading_;
  std::atomic<uint64_t> replies_ = 0;
  Engine engine_;  // last: its thread uses the others
};

}  // namespace binade::serve
