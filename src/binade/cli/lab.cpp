#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/io/file.h"
#include "binade/lab/experiment_report.h"

namespace binade::cli {
namespace {

struct LabArguments {
  std::string name;
  std::string out;
};

void list() {
  fmt::print("Experiments; see one with 'binade lab NAME', all with 'binade lab all --out DIR':\n");
  for (const lab::Experiment& one : lab::experiments())
    fmt::print("  {:<20} {}\n", one.name, one.title);
}

lab::CompletedExperiment run(const lab::Experiment& experiment) {
  const auto begin = std::chrono::steady_clock::now();
  lab::CompletedExperiment one{experiment, {}};
  experiment.run(one.report);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("== {} ==\n\n{}\n({:.1f} s)\n\n", experiment.title, one.report.text(), seconds);
  std::fflush(stdout);
  return one;
}

void write_page(const std::vector<lab::CompletedExperiment>& completed,
                const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail("lab", {.argument = "--out " + folder.string(),
                 .expected = "a folder to write to",
                 .found = error.message()});
  io::AtomicFile file(folder / "lab.html", "lab");
  file.append(lab::lab_page(completed));
  file.commit();
  fmt::print("page: {}\n", (folder / "lab.html").string());
}

}  // namespace

void add_lab(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("lab", "Run experiments that show what mixed precision does");
  auto arguments = std::make_shared<LabArguments>();
  command->add_option("NAME", arguments->name, "Experiment to run, or all; default: list them");
  command->add_option("--out", arguments->out, "Folder for a page with charts, lab.html")
      ->type_name("DIR");
  command->callback([arguments] {
    if (arguments->name.empty()) return list();
    std::vector<lab::Experiment> chosen;
    if (arguments->name == "all") {
      chosen.assign(lab::experiments().begin(), lab::experiments().end());
    } else {
      chosen.push_back(lab::find_experiment(arguments->name));
    }
    std::vector<lab::CompletedExperiment> completed;
    for (const lab::Experiment& one : chosen) completed.push_back(run(one));
    if (!arguments->out.empty()) write_page(completed, arguments->out);
  });
}

}  // namespace binade::cli
