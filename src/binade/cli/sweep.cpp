#include "binade/lab/sweep.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/values.h"
#include "binade/io/file.h"
#include "binade/train/run/signals.h"

namespace binade::cli {
namespace {

struct SweepArguments : ConfigArguments {
  std::string by = "layer";
  bool json = false;
};

void create_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail("sweep", {.argument = "--out " + folder.string(),
                   .expected = "a folder to write to",
                   .found = error.message()});
}

// A sweep that was interrupted before it moved anything has no plan, which must not replace that of
// an earlier sweep.
bool has_plan(const lab::Sweep& sweep) {
  return !sweep.interrupted || !sweep.plan().layers.empty();
}

void write_results(const lab::Sweep& sweep, const std::filesystem::path& folder) {
  io::AtomicFile file(folder / "sweep.html", "sweep");
  file.append(lab::sweep_html(sweep));
  file.commit();
  if (has_plan(sweep)) train::write_precision_plan(sweep.plan(), folder / "precision_plan.json");
}

void run_sweep(const train::Config& config, const SweepArguments& arguments) {
  const std::filesystem::path folder = config.run.out.empty() ? "sweep" : config.run.out;
  const train::SignalGuard signals;
  lab::SweepOptions options{.by = arguments.by == "matmul" ? lab::SweepOptions::By::matmul
                                                           : lab::SweepOptions::By::layer};
  // Before the first run: a folder that cannot be written must not cost a sweep.
  options.prepare = [&](train::Trainer&) { create_folder(folder); };
  options.on_run = [&](const std::string& line) {
    fmt::print(stderr, "{}\n", line);
    return !signals.stop_requested();
  };
  const lab::Sweep sweep = lab::sweep(config, options);
  // As a shell reports a program that a signal ended.
  const int status = sweep.interrupted ? 128 + signals.stop_signal() : 0;
  if (status != 0 && sweep.ranked.empty()) throw CLI::RuntimeError(status);  // there is no result
  write_results(sweep, folder);
  if (arguments.json) {
    fmt::print("{}", lab::sweep_json(sweep));
  } else {
    fmt::print("{}page: {}\n", lab::sweep_text(sweep), (folder / "sweep.html").string());
    if (has_plan(sweep))
      fmt::print("plan: {}   # for binade train --precision fp8 --precision-plan\n",
                 (folder / "precision_plan.json").string());
  }
  if (status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "sweep", "Rank layers by how much the recipe costs them, and write a precision plan");
  auto arguments = std::make_shared<SweepArguments>();
  command
      ->add_option("--by", arguments->by,
                   "layer, or matmul: forward, dgrad and wgrad of each layer, three times as long")
      ->check(one_of({"layer", "matmul"}))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  add_configuration(*command, *arguments);
  command->callback([arguments] {
    run_sweep(configuration(*arguments, {{"steps", "60"}, {"precision", "fp8"}}), *arguments);
  });
}

}  // namespace binade::cli
