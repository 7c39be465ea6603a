#include "binade/data/sentencepiece.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/sentencepiece_model.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

constexpr const char* sentencepiece_op = "tokenizer";
constexpr size_t chunk_bytes = 64 << 10;
constexpr int64_t max_training_text = int64_t{1} << 30;

using Options = std::unordered_map<std::string, std::string>;

// Keeps the library from logging to stderr what its Status reports too. Only training sets its log
// level, so this trains on nothing.
void silence_library() {
  static const bool done = [] {
    std::string unused;
    sentencepiece::SentencePieceTrainer::Train(Options{{"minloglevel", "9"}}, nullptr, &unused)
        .IgnoreError();
    return true;
  }();
  static_cast<void>(done);
}

// Calls the library; a failure or an exception becomes an Error about `argument`.
template <class Call>
void attempt(const std::string& argument, const char* expected, Call&& call) {
  std::string found;
  try {
    const sentencepiece::util::Status status = call();
    if (status.ok()) return;
    found = status.error_message();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    found = error.what();
  }
  // "src/model_interface.cc(95) [x] what is wrong": the library's source line does not help a user.
  const size_t end = found.rfind("] ");
  if (found.find(".cc(") < end && end != std::string::npos) found.erase(0, end + 2);
  fail(sentencepiece_op,
       {.argument = argument, .expected = expected, .found = json::in_quotes(found)});
}

// The end of the chunk that starts at `begin`: after a newline, else between two characters.
size_t chunk_end(std::string_view text, size_t begin) {
  size_t end = begin + chunk_bytes;
  if (end >= text.size()) return text.size();
  if (const size_t line = text.rfind('\n', end - 1);
      line != std::string_view::npos && line >= begin)
    return line + 1;
  for (int i = 0; i < 3 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; ++i) --end;
  return end;
}

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(std::string bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {
    silence_library();
    check_sentencepiece_model(std::as_bytes(std::span(bytes_)), name_);
    attempt(name_, "a SentencePiece model",
            [this] { return processor_.LoadFromSerializedProto(bytes_); });
  }

  int64_t vocab() const override { return processor_.GetPieceSize(); }
  std::string_view model() const override { return bytes_; }

  std::string decode(std::span<const int64_t> ids) const override {
    std::string text, run_text;
    std::vector<int> run;
    const auto finish_run = [&] {
      if (run.empty()) return;
      attempt(name_, "ids it can decode", [&] { return processor_.Decode(run, &run_text); });
      text += run_text;
      run.clear();
    };
    for (const int64_t id : ids) {
      if (id >= 0 && id < vocab()) {
        run.push_back(static_cast<int>(id));
      } else {
        finish_run();
        text += '?';
      }
    }
    finish_run();
    return text;
  }

 protected:
  size_t part_end(std::string_view text, size_t begin) const override {
    return chunk_end(text, begin);
  }
  std::vector<int32_t> encode_part(std::string_view text, size_t begin, size_t end) const override {
    std::vector<int> ids;
    attempt(name_, "a text it can encode",
            [&] { return processor_.Encode(text.substr(begin, end - begin), &ids); });
    return ids;
  }

 private:
  std::string bytes_, name_;
  sentencepiece::SentencePieceProcessor processor_;
};

// The lines of a text for the trainer, without their newlines.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::string_view text) : rest_(text) { Next(); }
  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }
  // Splits a long line, which the trainer would skip.
  void Next() override {
    done_ = rest_.empty();
    size_t length = std::min(rest_.find('\n'), rest_.size());
    if (length > longest) {
      length = longest;
      while (length > longest - 3 && (static_cast<unsigned char>(rest_[length]) & 0xC0U) == 0x80U)
        --length;
      line_ = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return;
    }
    line_ = rest_.substr(0, length);
    rest_.remove_prefix(std::min(length + 1, rest_.size()));
  }

  static constexpr size_t longest = 4096;

 private:
  std::string_view rest_;
  std::string line_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<const Tokenizer> open_sentencepiece(const std::filesystem::path& path) {
  return sentencepiece_of(io::read_text(path, sentencepiece_op, max_tokenizer_bytes),
                          path.string());
}

std::unique_ptr<const Tokenizer> sentencepiece_of(std::string bytes, const std::string& name) {
  return std::make_unique<SentencePiece>(std::move(bytes), name);
}

std::string train_sentencepiece(std::string_view text, int64_t vocab, TokenizerKind kind,
                                const std::string& name) {
  silence_library();
  if (std::cmp_greater(text.size(), max_training_text)) {
    fail(sentencepiece_op,
         {.argument = name,
          .expected = "at most " + std::to_string(max_training_text) + " bytes to train on",
          .found = std::to_string(text.size()),
          .hint = "a part of the text gives the same pieces"});
  }
  const Options options = {
      {"minloglevel", "9"},
      {"model_type", kind == TokenizerKind::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(vocab)},
      // Sums are per thread: a fixed number of threads gives the same model on every machine.
      {"num_threads", "4"},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9999"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"split_digits", "true"},
      {"max_sentence_length", std::to_string(Lines::longest)},
      {"user_defined_symbols", "\n"},
      {"hard_vocab_limit", "true"},
  };
  Lines lines(text);
  std::string model;
  attempt(name + ", --vocab " + std::to_string(vocab), "a text with pieces for that vocabulary",
          [&] { return sentencepiece::SentencePieceTrainer::Train(options, &lines, &model); });
  return model;
}

}  // namespace binade::data
