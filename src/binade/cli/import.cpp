#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/base/text.h"
#include "binade/cli/commands.h"
#include "binade/cli/values.h"
#include "binade/io/convert_model.h"

namespace binade::cli {

void add_import(CLI::App& app) {
  struct Arguments {
    std::string from, to, dtype = "f32";
    bool force = false;
  };
  CLI::App* command = app.add_subcommand(
      "import", "Check a Hugging Face model and write it for 'binade train --init-from'");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("FROM", arguments->from,
                   "Folder with config.json and model.safetensors or its shards")
      ->required();
  command->add_option("TO", arguments->to, "Folder to write")->required();
  command->add_option("--dtype", arguments->dtype, "Type of the weights")
      ->check(one_of({"f32", "bf16", "f16"}))
      ->capture_default_str();
  command->add_flag("--force", arguments->force, "Replace an existing model in TO");
  command->callback([arguments] {
    const io::Converted done = io::convert_pretrained(
        arguments->from, arguments->to,
        {.dtype = parse_dtype(arguments->dtype), .force = arguments->force, .complete = {}});
    fmt::print(
        "{} parameters of {} in {}; continue training with:\n  binade train --init-from {}\n",
        grouped(done.parameters), name(done.dtype), arguments->to, arguments->to);
  });
}

}  // namespace binade::cli
