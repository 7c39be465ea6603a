#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/keys.h"
#include "binade/cli/on_ranks.h"
#include "binade/cli/values.h"
#include "binade/io/file.h"
#include "binade/lab/replay/reproduce.h"
#include "binade/train/run/loop.h"

namespace binade::cli {
namespace {

struct ReproduceArguments {
  std::string path, write, run, out, data, tokenizer, init_from;
  int64_t audit = 0, seed = 0;
  bool json = false;
};

void write_manifest(const ReproduceArguments& arguments) {
  const train::Reproduction manifest = lab::manifest_of(arguments.path);
  io::AtomicFile file(arguments.write, "reproduce");
  file.append(train::to_json(manifest));
  file.commit();
  fmt::print("{}: {} steps, {} hashes\n", arguments.write, manifest.steps, manifest.links.size());
}

void audit(const ReproduceArguments& arguments) {
  if (arguments.run.empty())
    fail("reproduce", {.argument = "--audit",
                       .expected = "--run RUN, the run's folder with its checkpoints",
                       .found = "none"});
  const lab::Audit audit = lab::audit_run(arguments.path, arguments.run, arguments.audit,
                                          static_cast<uint64_t>(arguments.seed));
  if (!arguments.json) print_warnings(audit.notes);
  fmt::print("{}", arguments.json ? lab::audit_json(audit) : lab::audit_text(audit));
  if (!audit.equal()) throw CLI::RuntimeError(different);
}

void repeat(const ReproduceArguments& arguments,
            const std::shared_ptr<ranks::Communicator>& ranks) {
  using Mode = train::Progress::Mode;
  const train::Config config = lab::repeating_config(arguments.path, arguments.out, arguments.data,
                                                     arguments.tokenizer, arguments.init_from);
  if (ranks->rank() != 0) {
    train::run(config, Mode::quiet, nullptr, ranks);
    return;
  }
  const train::RunResult result =
      train::run(config, arguments.json ? Mode::json : Mode::normal, nullptr, ranks);
  if (!arguments.json && !result.difference.empty())
    fmt::print("not reproduced: {}\n", result.difference);
  if (!result.difference.empty()) throw CLI::RuntimeError(different);
  if (result.interrupted) throw CLI::RuntimeError(128 + result.signal);
}

}  // namespace

void add_reproduce(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "reproduce", "Repeat a run by its manifest, or check parts of it from its checkpoints");
  auto arguments = std::make_shared<ReproduceArguments>();
  command
      ->add_option("MANIFEST", arguments->path,
                   "The file that --write made; with --write the folder of a run")
      ->required();
  auto* write = command->add_option("--write", arguments->write,
                                    "Write the manifest of the run to this file");
  auto* audit_option =
      command
          ->add_option("--audit", arguments->audit,
                       "Do not train: replay this many segments between checkpoints of --run")
          ->transform(whole_number(1, 1 << 20))
          ->type_name("N")
          ->excludes(write);
  command->add_option("--run", arguments->run, "With --audit: the folder of the run")
      ->needs(audit_option);
  command->add_option("--seed", arguments->seed, "With --audit: chooses the segments")
      ->transform(whole_number())
      ->type_name("N")
      ->capture_default_str()
      ->needs(audit_option);
  command->add_option("--out", arguments->out, "Folder of the repeated run");
  command->add_option("--data", arguments->data, "The run's data, if they are elsewhere");
  command->add_option("--tokenizer", arguments->tokenizer,
                      "The run's tokenizer, if it is elsewhere");
  command->add_option("--init-from", arguments->init_from,
                      "The model that the run started from, if it is elsewhere");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] {
    if (!arguments->write.empty()) return write_manifest(*arguments);
    if (arguments->audit > 0) return audit(*arguments);
    on_ranks([&](const auto& ranks) { repeat(*arguments, ranks); });
  });
}

}  // namespace binade::cli
