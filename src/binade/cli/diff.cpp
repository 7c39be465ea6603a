#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/keys.h"
#include "binade/lab/replay/run_diff.h"
#include "binade/lab/torch_diff/torch_diff.h"

namespace binade::cli {
namespace {

struct DiffArguments {
  std::string a, b;
  bool json = false;
  std::shared_ptr<ModelArguments> model = std::make_shared<ModelArguments>();
};

void diff_two_runs(const DiffArguments& arguments) {
  const lab::RunDiff diff = lab::diff_runs(arguments.a, arguments.b);
  if (!arguments.json) print_warnings(diff.notes);
  fmt::print(
      "{}", arguments.json ? lab::diff_json(diff) : lab::diff_text(diff, arguments.a, arguments.b));
  if (!diff.is_known()) throw CLI::RuntimeError(bad_input);
  if (!diff.equal) throw CLI::RuntimeError(different);
}

void diff_with_torch(const DiffArguments& arguments) {
  const lab::TorchRecording recording{io::Path(arguments.b)};
  const auto folder = chosen_model(arguments.a, "diff");
  const auto model = arguments.model->load(folder, "diff");
  const lab::TorchDiff diff = lab::diff_torch(*model, recording, arguments.model->precision);
  if (!arguments.json) print_warnings(diff.notes);
  fmt::print("{}", arguments.json ? lab::torch_diff_json(diff)
                                  : lab::torch_diff_text(diff, folder.string(), arguments.b));
  if (!diff.equal()) throw CLI::RuntimeError(different);
}

}  // namespace

void add_diff(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "diff", "Find the first difference of two runs, or of a model and a recorded torch model");
  auto arguments = std::make_shared<DiffArguments>();
  command
      ->add_option("A", arguments->a,
                   "Folder of a run; beside a recording, a model, a checkpoint or the folder of a "
                   "run")
      ->required();
  command
      ->add_option("B", arguments->b,
                   "Folder of another run, or what a torch model computed: a file that "
                   "binade.torch.record wrote")
      ->required();
  add_model_options(*command, arguments->model);
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->callback([arguments, command] {
    std::error_code error;
    if (std::filesystem::is_regular_file(arguments->b, error)) return diff_with_torch(*arguments);
    for (const char* option : {"--device", "--precision", "--recipe"}) {
      if (command->count(option) > 0)
        fail("diff", {.argument = option,
                      .expected = "a recording of a torch model beside it",
                      .found = arguments->b,
                      .hint = "two runs are replayed with their own settings"});
    }
    diff_two_runs(*arguments);
  });
}

}  // namespace binade::cli
