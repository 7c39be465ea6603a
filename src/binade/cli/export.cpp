#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/base/text.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/values.h"
#include "binade/data/tokenizer_json/huggingface_files.h"
#include "binade/io/convert_model.h"
#include "binade/io/lora.h"

namespace binade::cli {

void add_export(CLI::App& app) {
  struct Arguments {
    std::string from, to, dtype;
    bool force = false, adapter = false;
  };
  CLI::App* command =
      app.add_subcommand("export", "Write a trained model as a folder that transformers loads");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("FROM", arguments->from, "A checkpoint, or the folder of a run")->required();
  command->add_option("TO", arguments->to, "Folder to write")->required();
  command->add_option("--dtype", arguments->dtype, "Type of the weights; default: unchanged")
      ->check(one_of({"f32", "bf16", "f16"}));
  command->add_flag("--adapter", arguments->adapter,
                    "Write the adapter of a LoRA run in PEFT's files instead of merging it");
  command->add_flag("--force", arguments->force, "Replace an existing model in TO");
  command->callback([arguments] {
    io::ConvertOptions options{.dtype = {}, .force = arguments->force, .complete = {}};
    if (!arguments->dtype.empty()) options.dtype = parse_dtype(arguments->dtype);
    const auto from = chosen_model(arguments->from, "export");
    if (arguments->adapter) {
      const io::Converted done = io::convert_adapter(from, arguments->to, options);
      fmt::print("{}: an adapter of {} parameters of {} in {}\n", from.string(),
                 grouped(done.parameters), name(done.dtype), arguments->to);
      return;
    }
    options.complete = [vocab = io::read_config(io::config_file(from)).vocab](
                           const std::filesystem::path& folder) {
      data::add_huggingface_files(folder, vocab);
    };
    const io::Converted done = io::convert_pretrained(from, arguments->to, options);
    fmt::print("{}: {} parameters of {} in {}\n", from.string(), grouped(done.parameters),
               name(done.dtype), arguments->to);
  });
}

}  // namespace binade::cli
