#include "binade/lab/precision_comparison.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/terminal.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/values.h"
#include "binade/io/file.h"
#include "binade/train/run/signals.h"

namespace binade::cli {
namespace {

// Fewer than a training run's, since a comparison trains several times.
constexpr const char* default_steps = "200";
// At high rates rounding errors grow until precisions differ as much as seeds do.
constexpr double max_default_lr = 1e-3;
constexpr int64_t steps_per_warmup_step = 5;

// Shows on stderr where a comparison stands: a line that updates itself on a terminal, and one that
// stays after each run.
class ComparisonProgress {
 public:
  ComparisonProgress() = default;
  ~ComparisonProgress() { clear(); }
  ComparisonProgress(const ComparisonProgress&) = delete;
  ComparisonProgress& operator=(const ComparisonProgress&) = delete;

  void step(const lab::CompareProgress& now) {
    if (!terminal_) return;
    const std::string line = fmt::format("run {} of {}, {}: step {}/{}, loss {:.4f}", now.index,
                                         now.runs, now.run, now.step, now.steps, now.loss);
    show(line);
  }
  void show(const std::string& line) {
    if (!terminal_) return;
    const auto limit =
        static_cast<size_t>(std::max(terminal::width(stderr) - 1 - terminal::free_columns, 0));
    fmt::print(stderr, "{}{}{}", terminal::line_start, line.substr(0, limit), terminal::clear_line);
    open_ = true;
  }
  void note(const std::string& line) {
    clear();
    fmt::print(stderr, "{}\n", line);
  }
  void clear() {
    if (!open_) return;
    std::fputs(terminal::line_start, stderr);
    std::fputs(terminal::clear_line, stderr);
    open_ = false;
  }

 private:
  bool terminal_ = terminal::is_terminal(stderr);
  bool open_ = false;
};

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
    out.key("scale").value(run.scale).key("peak").value(run.memory.peak);
    out.key("outside_noise").value(comparison.is_outside_noise(run)).end_object();
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

// The configuration with a comparison's own steps, rate and warmup where they are not given.
train::Config gentle_configuration(const CompareArguments& arguments) {
  GivenOptions defaults = {{"steps", default_steps}};
  const train::Config plain = configuration(arguments, defaults);
  defaults.emplace_back("lr", fmt::format("{}", std::min(plain.train.lr, max_default_lr)));
  defaults.emplace_back("warmup", fmt::format("{}", plain.train.steps / steps_per_warmup_step));
  return configuration(arguments, defaults);
}

void run(const train::Config& config, lab::CompareOptions options, bool json) {
  ComparisonProgress progress;
  progress.show("reading " + config.data.source);
  const train::SignalGuard signals;
  options.on_step = [&](const lab::CompareProgress& now) {
    progress.step(now);
    return !signals.stop_requested();
  };
  const lab::Comparison comparison =
      lab::compare(config, options, [&progress](const std::string& line) { progress.note(line); });
  progress.clear();
  if (comparison.interrupted)
    progress.note(fmt::format("stopped; {} of {} precisions are complete", comparison.runs.size(),
                              options.precisions.size()));
  if (!comparison.runs.empty()) {
    const std::filesystem::path folder = config.run.out.empty() ? "compare" : config.run.out;
    write_page(comparison, folder);
    if (json) {
      print_json(comparison);
    } else {
      fmt::print("{}page: {}\n", lab::compare_text(comparison), (folder / "compare.html").string());
    }
  }
  // As a shell reports a program that a signal ended.
  if (comparison.interrupted) throw CLI::RuntimeError(128 + signals.stop_signal());
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
                   "Seeds of the first precision, at least 2, to measure the noise")
      ->transform(whole_number(2, 100))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  add_configuration(*command, *arguments);
  command->callback([arguments] {
    const train::Config config = gentle_configuration(*arguments);
    lab::CompareOptions options{.seeds = arguments->seeds};
    if (!arguments->precisions.empty()) options.precisions = parts(arguments->precisions);
    run(config, options, arguments->json);
  });
}

}  // namespace binade::cli
