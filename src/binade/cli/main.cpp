#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/amp/diverged_error.h"
#include "binade/base/error.h"
#include "binade/base/terminal.h"
#include "binade/base/text.h"
#include "binade/cli/command_line.h"
#include "binade/cli/commands.h"
#include "binade/cli/help_formatter.h"
#include "binade/cli/launched.h"
#include "binade/io/file.h"
#include "binade/ranks/environment.h"
#include "binade/train/audit/step_audit.h"

namespace {

int report(int status, std::string_view message) {
  std::fflush(stdout);
  // Standard error may be closed: the exit code still tells.
  std::fputs(fmt::format("{} {}\n",
                         binade::terminal::styled("binade:", binade::terminal::Style::red,
                                                  binade::terminal::has_color(stderr)),
                         message)
                 .c_str(),
             stderr);
  return status;
}

// A closed standard stream would lend its number to the next file that is opened, and messages
// would go there. Gives it to one that every read or write fails on.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is this one, since those below are taken by now.
    if (::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) return;
  }
}

// The command that was parsed, with those above it.
const CLI::App& parsed_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : parsed_command(*chosen.back());
}

// In the style of every error: "launch: --ranks: expected ..., found ...; see 'binade launch
// --help'".
std::string in_own_style(const CLI::ParseError& error, const CLI::App& app) {
  const std::string message = binade::visible(error.what());
  if (message.ends_with(" --help'")) return message;
  const CLI::App& command = parsed_command(app);
  const std::string before = &command == &app ? "" : binade::cli::title(command) + ": ";
  const char* see = message.ends_with('?') ? " See" : "; see";
  return fmt::format("{}{}{} '{} --help'", before, message, see, binade::cli::full_name(command));
}

// The program as it was called, so that commands in messages can be copied: "./binade".
std::string called_as(const char* name) {
  return name != nullptr && std::string_view(name).find('/') != std::string_view::npos ? name
                                                                                       : "binade";
}

void parse(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words;
  if (argc > 0) words = binade::cli::check_command_line(app, {argv + 1, argv + argc});
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  app.parse(std::move(words));
  if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
}

struct Command {
  std::string_view name;
  void (*add)(CLI::App&);
};

// In the order that help lists them.
constexpr Command commands[] = {
    {"train", binade::cli::add_train},
    {"launch", binade::cli::add_launch},
    {"generate", binade::cli::add_generate},
    {"serve", binade::cli::add_serve},
    {"eval", binade::cli::add_eval},
    {"export", binade::cli::add_export},
    {"import", binade::cli::add_import},
    {"inspect", binade::cli::add_inspect},
    {"at", binade::cli::add_at},
    {"diff", binade::cli::add_diff},
    {"reproduce", binade::cli::add_reproduce},
    {"report", binade::cli::add_report},
    {"tokenize", binade::cli::add_tokenize},
    {"bench", binade::cli::add_bench},
    {"compare", binade::cli::add_compare},
    {"sweep", binade::cli::add_sweep},
    {"plan", binade::cli::add_plan},
    {"lab", binade::cli::add_lab},
    {"policy", binade::cli::add_policy},
    {"formats", binade::cli::add_formats},
    {"info", binade::cli::add_info},
    {"version", binade::cli::add_version},
    {"completions", binade::cli::add_completions},
    {"man", binade::cli::add_man},
    {"help", binade::cli::add_help},
};

// Adds the command that `first`, the first word of the command line, names: the options of all take
// longer than a short command runs. All where it names none, and for those that describe or run
// others.
void add_commands(CLI::App& app, std::string_view first) {
  constexpr std::string_view of_others[] = {"launch", "completions", "man", "help"};
  if (std::ranges::find(of_others, first) == std::end(of_others)) {
    const auto* named = std::ranges::find(commands, first, &Command::name);
    if (named != std::end(commands)) {
      named->add(app);
      return;
    }
  }
  for (const Command& command : commands) command.add(app);
}

int run(int argc, char** argv) {
  CLI::App app("Mixed-precision training engine", called_as(argv[0]));
  app.formatter(std::make_shared<binade::cli::HelpFormatter>());  // before commands copy it
  app.require_subcommand(0, 1);  // none is reported below: CLI11 would not name a mistyped command
  add_commands(app, argc > 1 ? argv[1] : "");
  int status = 0;
  bool is_told = false;
  try {
    parse(app, argc, argv);
  } catch (const CLI::Success& request) {
    return app.exit(request);  // --help, --version
  } catch (const CLI::RuntimeError& error) {
    status = error.get_exit_code();  // an interrupted or failed run; the command has said why
    is_told = binade::cli::tell_launcher(status);
    if (is_told) status = 0;  // mpirun calls any other a failure
  } catch (const CLI::ParseError& error) {
    return report(binade::cli::bad_input, in_own_style(error, app));
  } catch (const binade::amp::DivergedError& error) {
    return report(binade::cli::failed_training, error.what());
  } catch (const binade::train::AuditError& error) {
    return report(binade::cli::different, error.what());
  } catch (const binade::Error& error) {
    return report(binade::cli::bad_input, error.what());
  }
  // A failed write to stdout (a full disk, for example) is an error too.
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return report(status == 0 ? 1 : status, "cannot write the output");
  // mpirun may not live to say so.
  const bool is_success = status == 0 && !is_told && binade::cli::is_launched();
  if (is_success && binade::ranks::environment().rank == 0) binade::cli::tell_launcher(0);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  binade::cli::end_with_launcher();
  std::signal(SIGXFSZ, SIG_IGN);  // a write above the limit on files fails with a message instead
  occupy_closed_streams();
  binade::io::guard_mapped_files();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return report(1, binade::visible(error.what()));
  }
}
