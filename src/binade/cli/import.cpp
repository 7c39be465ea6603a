#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/base/text.h"
#include "binade/cli/commands.h"
#include "binade/cli/values.h"
#include "binade/data/tokenizer_json/huggingface_files.h"
#include "binade/io/convert_model.h"
#include "binade/io/gguf/file.h"

namespace binade::cli {

void add_import(CLI::App& app) {
  struct Arguments {
    std::string from, to, dtype = "f32";
    bool force = false;
  };
  CLI::App* command = app.add_subcommand(
      "import", "Check a model from elsewhere and write it for 'binade train --init-from'");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("FROM", arguments->from,
                   "Folder with config.json and model.safetensors or its shards, or a GGUF file")
      ->required();
  command->add_option("TO", arguments->to, "Folder to write")->required();
  command->add_option("--dtype", arguments->dtype, "Type of the weights")
      ->check(one_of({"f32", "bf16", "f16"}))
      ->capture_default_str();
  command->add_flag("--force", arguments->force, "Replace an existing model in TO");
  command->callback([arguments] {
    io::ConvertOptions options{
        .dtype = parse_dtype(arguments->dtype), .force = arguments->force, .complete = {}};
    if (io::gguf::is_gguf(arguments->from)) {
      options.complete = [&](const std::filesystem::path& folder) {
        data::add_tokenizer_of(arguments->from, folder);
      };
    }
    const io::Converted done = io::convert_pretrained(arguments->from, arguments->to, options);
    fmt::print(
        "{} parameters of {} in {}; continue training with:\n  binade train --init-from {}\n",
        grouped(done.parameters), name(done.dtype), arguments->to, arguments->to);
  });
}

}  // namespace binade::cli
