#include "binade/train/generate.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/data/tokenizer.h"
#include "binade/io/huggingface.h"
#include "binade/train/checkpoint.h"

namespace binade::cli {
namespace {

struct Arguments {
  std::string folder;
  std::string prompt = "\n";
  train::GenerateOptions options;
};

// A model's folder, or the newest checkpoint of a run's.
std::filesystem::path model_folder(const std::filesystem::path& given) {
  if (std::filesystem::exists(given / "config.json")) return given;
  const auto checkpoints = train::list_checkpoints(given / "checkpoints");
  if (checkpoints.empty()) {
    fail("generate", {.argument = given.string(),
                      .expected = "a checkpoint or the folder of a run",
                      .found = std::filesystem::exists(given) ? "neither" : "nothing there"});
  }
  return checkpoints.back().path;
}

void run(const Arguments& arguments) {
  const std::filesystem::path folder = model_folder(arguments.folder);
  const auto model = io::load_pretrained(folder);
  const auto tokenizer = data::tokenizer_of(folder, model->config().vocab);
  const std::vector<int64_t> prompt =
      tokenizer->encode(arguments.prompt.empty() ? "\n" : arguments.prompt);
  const std::vector<int64_t> made = train::generate(*model, prompt, arguments.options);
  fmt::print("{}{}\n", train::printable(arguments.prompt),
             train::printable(tokenizer->decode(made)));
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a trained model");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("FOLDER", arguments->folder, "A checkpoint, or the folder of a run")
      ->required();
  command->add_option("--prompt", arguments->prompt, "Text to continue");
  command->add_option("--tokens", arguments->options.tokens, "Tokens to make")
      ->capture_default_str();
  command
      ->add_option("--temperature", arguments->options.temperature, "0: always the likeliest token")
      ->capture_default_str();
  command->add_option("--top-k", arguments->options.top_k, "Choose among the likeliest K; 0: all")
      ->capture_default_str();
  command->add_option("--seed", arguments->options.seed, "The same seed gives the same text")
      ->capture_default_str();
  command->callback([arguments] { run(*arguments); });
}

}  // namespace binade::cli
