#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/cli/commands.h"
#include "binade/cli/keys.h"
#include "binade/lab/replay/run_diff.h"

namespace binade::cli {

void add_diff(CLI::App& app) {
  struct Arguments {
    std::string a, b;
    bool json = false;
  };
  CLI::App* command =
      app.add_subcommand("diff", "Find the first difference of two runs, and its cause");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("A", arguments->a, "Folder of a run")->required();
  command->add_option("B", arguments->b, "Folder of another run")->required();
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->callback([arguments] {
    const lab::RunDiff diff = lab::diff_runs(arguments->a, arguments->b);
    if (!arguments->json) print_warnings(diff.notes);
    fmt::print("{}", arguments->json ? lab::diff_json(diff)
                                     : lab::diff_text(diff, arguments->a, arguments->b));
    if (!diff.is_known()) throw CLI::RuntimeError(bad_input);
    if (!diff.equal) throw CLI::RuntimeError(different);
  });
}

}  // namespace binade::cli
