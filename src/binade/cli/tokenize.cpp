#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/cli/commands.h"
#include "binade/data/corpus.h"
#include "binade/data/sentencepiece.h"
#include "binade/data/token_file.h"
#include "binade/io/file.h"

namespace binade::cli {
namespace {

struct TrainArguments {
  std::string data, out;
  int64_t vocab = 8192;
  std::string kind = "bpe";
};

void train(const TrainArguments& arguments) {
  const auto kind =
      arguments.kind == "bpe" ? data::TokenizerKind::bpe : data::TokenizerKind::unigram;
  const std::string text = data::read_text(arguments.data);
  const std::string model =
      data::train_sentencepiece(text, arguments.vocab, kind, "--data " + arguments.data);
  io::AtomicFile file(arguments.out, "tokenizer");
  file.append(model);
  file.commit();
  fmt::print("{}: {} pieces ({}) from {} bytes of text\n", arguments.out, arguments.vocab,
             arguments.kind, text.size());
}

struct ApplyArguments {
  std::string model, in, out;
  bool nanogpt = false;
};

void apply(const ApplyArguments& arguments) {
  const auto tokenizer = data::open_tokenizer(arguments.model);
  std::string text = data::read_text(arguments.in);
  const size_t bytes = text.size();
  const data::Tokens tokens = data::tokenize(std::move(text), *tokenizer);
  data::write_token_file(arguments.out, tokens, tokenizer->vocab(),
                         arguments.nanogpt ? data::TokenFormat::nanogpt : data::TokenFormat::llm_c);
  fmt::print("{}: {} tokens below {} from {} bytes of text\n", arguments.out, tokens.size(),
             tokenizer->vocab(), bytes);
}

void add_train_part(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand("train", "Learn a SentencePiece model from a text");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("--data", arguments->data, "Text to learn from: a file, a folder, or builtin")
      ->required();
  command->add_option("--vocab", arguments->vocab, "Pieces, among them 256 single bytes")
      ->check(CLI::Range(int64_t{261}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--kind", arguments->kind, "How pieces are chosen")
      ->check(CLI::IsMember({"bpe", "unigram"}))
      ->capture_default_str();
  command->add_option("OUT", arguments->out, "The model's file, OUT.model")->required();
  command->callback([arguments] { train(*arguments); });
}

void add_apply_part(CLI::App& parent) {
  CLI::App* command =
      parent.add_subcommand("apply", "Turn a text into a token file for 'binade train --data'");
  auto arguments = std::make_shared<ApplyArguments>();
  command->add_option("MODEL", arguments->model, "A SentencePiece model, or bytes")->required();
  command->add_option("IN", arguments->in, "Text: a file, a folder, or builtin")->required();
  command
      ->add_option("OUT", arguments->out,
                   "Token file (.bin) in llm.c's format: 16 bits an id, 32 for more than 65536")
      ->required();
  command->add_flag("--nanogpt", arguments->nanogpt, "16 bits an id and no header");
  command->callback([arguments] { apply(*arguments); });
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Train and apply tokenizers (SentencePiece)");
  command->require_subcommand(1);
  add_train_part(*command);
  add_apply_part(*command);
}

}  // namespace binade::cli
