#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/cli/commands.h"
#include "binade/cli/keys.h"
#include "binade/cli/values.h"
#include "binade/io/file.h"
#include "binade/lab/replay/branch.h"
#include "binade/lab/replay/recorded_run.h"
#include "binade/lab/replay/step_view.h"

namespace binade::cli {
namespace {

struct AtArguments {
  std::string run;
  lab::ViewOptions view;
  bool histogram = false, json = false, no_shadow = false;
  std::string save, html, branch;
  std::vector<std::string> settings;
};

void start_branch(const AtArguments& arguments, const lab::RecordedRun& run) {
  const lab::Branch branch = lab::branch_run(
      run,
      {.step = arguments.view.step, .folder = arguments.branch, .settings = arguments.settings});
  print_warnings(branch.notes);
  fmt::print("branch: {}, which continues after step {}:\n  {}\n", branch.folder,
             arguments.view.step, branch.command);
}

void show(AtArguments arguments) {
  const lab::RecordedRun run = lab::open_run(arguments.run, "at");
  if (!arguments.branch.empty()) return start_branch(arguments, run);
  arguments.view.shadow = !arguments.no_shadow;
  const lab::StepView view = lab::view_step(run, arguments.view);
  if (!arguments.json) print_warnings(view.notes);
  fmt::print("{}",
             arguments.json ? lab::view_json(view) : lab::view_text(view, arguments.histogram));
  if (!arguments.save.empty()) lab::save_view(view, arguments.save);
  if (!arguments.html.empty()) {
    io::AtomicFile file(arguments.html, "at");
    file.append(
        lab::view_html(view, fmt::format("Step {} of {}", view.step, run.folder.filename())));
    file.commit();
  }
  if (!view.equal()) throw CLI::RuntimeError(different);
}

}  // namespace

void add_at(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "at", "Replay a step of a run and show any activation, gradient, weight or moment");
  auto arguments = std::make_shared<AtArguments>();
  command->add_option("RUN", arguments->run, "Folder of the run")->required();
  command->add_option("--step", arguments->view.step, "Step to replay, counted from 1")
      ->required()
      ->type_name("N");
  command
      ->add_option("--micro", arguments->view.micro,
                   "Micro-batch whose activations and gradients are shown; -1: all")
      ->type_name("M")
      ->capture_default_str();
  command
      ->add_option("--tensor", arguments->view.tensors,
                   "Only tensors of these names or modules: patterns such as 'blocks.0.*', "
                   "'gradient/*', 'first/head.weight' or logits")
      ->type_name("PATTERN");
  command->add_flag("--histogram", arguments->histogram,
                    "Print exponents and the largest elements of each tensor");
  command->add_flag("--no-shadow", arguments->no_shadow,
                    "Do not compute the micro-batch in f32, too");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->add_option("--save", arguments->save, "Write the tensors to this safetensors file");
  command->add_option("--html", arguments->html, "Write a page to this file");
  auto* branch = command->add_option("--branch", arguments->branch,
                                     "Make a run in this folder that continues after the step");
  command
      ->add_option("--set", arguments->settings,
                   "With --branch: settings that the new run has, such as lr=1e-4")
      ->type_name("KEY=VALUE")
      ->needs(branch);
  command->callback([arguments] { show(*arguments); });
}

}  // namespace binade::cli
