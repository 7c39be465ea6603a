#include "binade/train/report/report.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/cli/commands.h"
#include "binade/cli/keys.h"
#include "binade/io/file.h"
#include "binade/train/report/run_comparison.h"
#include "binade/train/report/run_summary.h"

namespace binade::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> folders;
  std::string out;
};

// A run laid over itself shows nothing.
void require_different(const std::vector<std::string>& folders) {
  for (size_t i = 0; i < folders.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      std::error_code ignored;  // reading reports what is wrong
      if (std::filesystem::equivalent(folders[i], folders[j], ignored))
        fail("report", {.argument = "RUN",
                        .expected = "each run once",
                        .found = folders[j] + (folders[i] == folders[j]
                                                   ? " twice"
                                                   : " and " + folders[i] + ", the same folder")});
    }
  }
}

void run(const ReportArguments& arguments) {
  require_different(arguments.folders);
  std::vector<train::RunSummary> runs;
  for (const std::string& folder : arguments.folders) {
    runs.push_back(train::read_run(folder));
    std::vector<std::string> warnings;
    for (const std::string& warning : runs.back().warnings)
      warnings.push_back(visible(folder) + ": " + warning);
    print_warnings(warnings);
  }
  io::Path out = arguments.out;
  if (runs.size() == 1) {
    if (out.empty()) out = io::Path(io::Directory(arguments.folders[0], "report")) / "report.html";
    train::write_report(runs[0], out);
  } else {
    if (out.empty()) out = "comparison.html";
    io::AtomicFile file(out, "report");
    file.append(train::comparison_html(runs));
    file.commit();
  }
  fmt::print("report: {}\n", out.string());
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "report", "Regenerate a run's report.html, or overlay several runs in one page");
  auto arguments = std::make_shared<ReportArguments>();
  command->add_option("RUN", arguments->folders, "Run folders")->required();
  command->add_option(
      "--out", arguments->out,
      "File to write; default: RUN/report.html, or comparison.html for several runs");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace binade::cli
