#include "binade/train/generate.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "binade/amp/autocast.h"
#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/data/tokenizer.h"
#include "binade/io/huggingface.h"
#include "binade/io/model_folder.h"

namespace binade::cli {
namespace {

constexpr int64_t max_prompt = int64_t{1} << 28;

struct GenerateArguments {
  std::string folder;
  std::string prompt = "\n";
  std::string prompt_file;
  train::GenerateOptions options;
  std::shared_ptr<ModelArguments> model = std::make_shared<ModelArguments>();
};

std::string prompt_of(const GenerateArguments& arguments) {
  if (arguments.prompt_file.empty()) return arguments.prompt;
  if (arguments.prompt_file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  return io::read_text(arguments.prompt_file, "generate", max_prompt);
}

void run(const GenerateArguments& arguments) {
  const std::filesystem::path folder = io::model_folder(arguments.folder, "generate");
  const auto model = io::load_pretrained(folder, {arguments.model->where(), DType::f32});
  const auto tokenizer = data::tokenizer_of(folder, model->config().vocab);
  train::check_options(arguments.options);
  std::string text = prompt_of(arguments);
  if (text.empty()) text = "\n";
  const auto show = [](const std::string& piece) {
    fmt::print("{}", piece);
    std::fflush(stdout);
  };
  train::TextStream stream;
  show(stream.add(text));
  // A token's text may depend on earlier tokens, so all are decoded each time and only the new part
  // is printed.
  std::vector<int64_t> generated;
  std::string decoded;
  const amp::Autocast cast(arguments.model->autocast());
  train::generate(*model, tokenizer->encode_prompt(text), arguments.options, [&](int64_t token) {
    generated.push_back(token);
    const std::string whole = tokenizer->decode(generated);
    show(stream.add(whole.substr(std::min(decoded.size(), whole.size()))));
    decoded = whole;
  });
  show(stream.finish() + "\n");
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a trained model");
  auto arguments = std::make_shared<GenerateArguments>();
  train::GenerateOptions& options = arguments->options;
  command->add_option("FOLDER", arguments->folder, "A model, a checkpoint, or the folder of a run")
      ->required();
  auto* prompt = command->add_option("--prompt", arguments->prompt, "Text to continue");
  command
      ->add_option("--prompt-file", arguments->prompt_file,
                   "File with the text to continue; -: standard input")
      ->excludes(prompt);
  command->add_option("--tokens", options.tokens, "Tokens to generate")->capture_default_str();
  command
      ->add_option("--temperature", options.temperature,
                   "Sampling temperature; 0: always the most likely token")
      ->capture_default_str();
  command->add_option("--top-k", options.top_k, "Sample from the K most likely tokens; 0: all")
      ->capture_default_str();
  command
      ->add_option("--top-p", options.top_p,
                   "Sample from the most likely tokens with a total probability of P")
      ->capture_default_str();
  command
      ->add_option("--seed", options.seed,
                   "Seed of the sampling; the same seed gives the same text")
      ->capture_default_str();
  add_model_options(*command, arguments->model);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace binade::cli
