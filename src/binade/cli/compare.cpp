#include "binade/lab/precision_comparison.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/io/file.h"

namespace binade::cli {
namespace {

// Fewer than a training run's, since a comparison trains several times.
constexpr const char* default_steps = "200";

struct CompareArguments : ConfigArguments {
  std::string precisions;
  int64_t seeds = lab::CompareOptions{}.seeds;
  bool json = false;
};

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) result.push_back(part);
  return result;
}

void print_json(const lab::Comparison& comparison) {
  json::Writer out(2);
  out.begin_object().key("runs").begin_array();
  for (const lab::ComparedRun& run : comparison.runs) {
    out.begin_object().key("precision").value(run.precision).key("loss");
    std::isfinite(run.loss) ? out.value(run.loss) : out.value(nullptr);
    out.key("tokens_per_second").value(run.tokens_per_second).key("skipped").value(run.skipped);
    out.key("scale").value(run.scale).key("peak").value(run.memory.peak).end_object();
  }
  out.end_array().key("seed_losses").begin_array();
  for (const double loss : comparison.seed_losses)
    std::isfinite(loss) ? out.value(loss) : out.value(nullptr);
  fmt::print("{}\n", out.end_array().end_object().text());
}

void write_page(const lab::Comparison& comparison, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail("compare", {.argument = "--out " + folder.string(),
                     .expected = "a folder to write to",
                     .found = error.message()});
  io::AtomicFile file(folder / "compare.html", "compare");
  file.append(lab::compare_html(comparison));
  file.commit();
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "compare", "Train the same model in several precisions and compare loss, speed and memory");
  auto arguments = std::make_shared<CompareArguments>();
  command
      ->add_option(
          "--precisions", arguments->precisions,
          fmt::format("Some of {}; the first is the baseline", fmt::join(lab::comparable(), ",")))
      ->type_name("LIST")
      ->default_str(fmt::format("{}", fmt::join(lab::CompareOptions{}.precisions, ",")));
  command
      ->add_option("--seeds", arguments->seeds,
                   "Seeds of the first precision, to measure the noise")
      ->check(CLI::Range(2, 100))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  add_configuration(*command, *arguments);
  command->callback([command, arguments] {
    arguments->options->insert(arguments->options->begin(), {"steps", default_steps});
    const train::Config config = configuration(*command, *arguments);
    lab::CompareOptions options{.seeds = arguments->seeds};
    if (!arguments->precisions.empty()) options.precisions = parts(arguments->precisions);
    const auto note = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
    const lab::Comparison comparison = lab::compare(config, options, note);
    const std::filesystem::path folder = config.out.empty() ? "compare" : config.out;
    write_page(comparison, folder);
    if (arguments->json) return print_json(comparison);
    fmt::print("{}page: {}\n", lab::compare_text(comparison), (folder / "compare.html").string());
  });
}

}  // namespace binade::cli
