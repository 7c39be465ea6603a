#include "binade/train/report/inspect.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/cli/commands.h"
#include "binade/cli/keys.h"

namespace binade::cli {

void add_inspect(CLI::App& app) {
  struct Arguments {
    std::string path, only;
    bool histogram = false, json = false;
  };
  CLI::App* command = app.add_subcommand("inspect", "Print statistics of a tensor or token file");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option(
          "PATH", arguments->path,
          "A safetensors file, a GGUF file, a token file (.bin), or the folder of a model, "
          "a checkpoint or a run")
      ->required();
  command->add_option("--only", arguments->only, "Only tensors whose names contain this text");
  command->add_flag("--histogram", arguments->histogram, "Print a histogram of the exponents");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->callback([arguments] {
    const train::Inspection found = train::inspect(arguments->path, arguments->only);
    print_warnings(found.notes);
    fmt::print("{}", arguments->json ? train::inspection_json(found)
                                     : train::inspection_text(found, arguments->histogram));
  });
}

}  // namespace binade::cli
