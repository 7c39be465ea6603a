#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "binade/base/error.h"
#include "binade/base/terminal.h"
#include "binade/cli/commands.h"
#include "binade/cli/keys.h"
#include "binade/cli/values.h"
#include "binade/data/corpus.h"
#include "binade/data/sentencepiece.h"
#include "binade/data/text_check.h"
#include "binade/data/token_file.h"
#include "binade/data/tokenizer_json/bpe_trainer.h"
#include "binade/io/file.h"

namespace binade::cli {
namespace {

// SentencePiece's own symbols (<unk>, <s>, </s>), a newline, every byte, and at least one piece.
constexpr int64_t min_vocabulary = 3 + 1 + data::byte_vocabulary + 1;
constexpr int64_t max_vocabulary = int64_t{1} << 20;

struct TrainArguments {
  std::string data, out;
  int64_t vocab = 8192;
  std::string kind = "bpe";
};

std::string trained(const TrainArguments& arguments, const std::string& text) {
  const std::string name = "--data " + arguments.data;
  if (arguments.kind == "byte-bpe")
    return data::write_tokenizer_json(data::train_byte_level_bpe(text, arguments.vocab, name));
  const auto kind =
      arguments.kind == "bpe" ? data::TokenizerKind::bpe : data::TokenizerKind::unigram;
  return data::train_sentencepiece(text, arguments.vocab, kind, name);
}

// The extension tells the kind when the file is opened.
void check_name(const TrainArguments& arguments) {
  const bool is_json = arguments.out.ends_with(".json");
  if (is_json == (arguments.kind == "byte-bpe")) return;
  fail("tokenizer", {.argument = "OUT",
                     .expected = is_json ? "a name that does not end in .json for a SentencePiece "
                                           "model (--kind " +
                                               arguments.kind + ")"
                                         : "a name that ends in .json for --kind byte-bpe",
                     .found = arguments.out,
                     .hint = is_json ? "--kind byte-bpe writes a tokenizer.json" : ""});
}

void train(const TrainArguments& arguments) {
  check_name(arguments);
  print_warnings(data::check_text(arguments.data, false));
  const std::string text = data::read_text(arguments.data);
  const std::string model = trained(arguments, text);
  io::AtomicFile file(arguments.out, "tokenizer");
  file.append(model);
  file.commit();
  fmt::print("{}: {} pieces ({}) from {} bytes of text\n", arguments.out, arguments.vocab,
             arguments.kind, text.size());
}

// Shows the fraction of a text that is done, on a terminal only.
class ByteProgress {
 public:
  explicit ByteProgress(int64_t bytes)
      : bytes_(std::max<int64_t>(bytes, 1)), terminal_(terminal::is_terminal(stderr)) {}

  void show(int64_t done) const {
    if (terminal_) fmt::print(stderr, "\r{:3}% of {} bytes", done * 100 / bytes_, bytes_);
  }
  void finish() const {
    if (terminal_) fmt::print(stderr, "{}{}", terminal::line_start, terminal::clear_line);
  }

 private:
  int64_t bytes_;
  bool terminal_;
};

struct ApplyArguments {
  std::string model, in, out;
  bool nanogpt = false;
};

void apply(const ApplyArguments& arguments) {
  const auto tokenizer = data::open_tokenizer(arguments.model);
  print_warnings(data::check_text(arguments.in, false));
  data::TextReader reader(arguments.in);
  const ByteProgress progress(reader.total());
  data::TokenFileWriter writer(
      arguments.out, tokenizer->vocab(),
      arguments.nanogpt ? data::TokenFormat::nanogpt : data::TokenFormat::llm_c);
  size_t bytes = 0;
  data::encode_in_template(reader, *tokenizer, [&](std::span<const int32_t> ids, size_t done) {
    writer.append(ids);
    bytes = done;
    progress.show(reader.consumed());
  });
  writer.commit();
  progress.finish();
  fmt::print("{}: {} tokens below {} from {} bytes of text\n", arguments.out, writer.size(),
             tokenizer->vocab(), bytes);
}

void add_train_part(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("train", "Train a tokenizer on a text");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("--data", arguments->data, "Training text: a file, a folder, or builtin")
      ->required();
  command->add_option("--vocab", arguments->vocab, "Vocabulary size, including one piece per byte")
      ->transform(whole_number(min_vocabulary, max_vocabulary))
      ->capture_default_str();
  command
      ->add_option("--kind", arguments->kind,
                   "bpe, unigram: a SentencePiece model; byte-bpe: a tokenizer.json")
      ->check(one_of({"bpe", "unigram", "byte-bpe"}))
      ->capture_default_str();
  command->add_option("OUT", arguments->out, "File to write; for byte-bpe its name ends in .json")
      ->required();
  command->callback([arguments] { train(*arguments); });
}

void add_apply_part(CLI::App& parent) {
  CLI::App* command =
      parent.add_subcommand("apply", "Convert a text to a token file for 'binade train --data'");
  auto arguments = std::make_shared<ApplyArguments>();
  command
      ->add_option("MODEL", arguments->model,
                   "A tokenizer.json, a SentencePiece model, a folder with one, or bytes")
      ->required();
  command->add_option("IN", arguments->in, "Text: a file, a folder, or builtin")->required();
  command
      ->add_option("OUT", arguments->out,
                   "Token file (.bin) in llm.c's format: 16 bits per id, 32 above 65536 ids")
      ->required();
  command->add_flag("--nanogpt", arguments->nanogpt,
                    "Write nanoGPT's format: 16 bits per id, no header");
  command->callback([arguments] { apply(*arguments); });
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Train and apply tokenizers");
  command->require_subcommand(1);
  add_train_part(*command);
  add_apply_part(*command);
}

}  // namespace binade::cli
