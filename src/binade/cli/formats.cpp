#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <optional>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/values.h"
#include "binade/formats/table.h"

namespace binade::cli {
namespace {

struct FormatsArguments {
  std::optional<double> number;
  double scale = 1;
  bool json = false, bits = false;
};

std::string formats_output(const FormatsArguments& arguments) {
  if (arguments.number) {
    if (!std::isfinite(*arguments.number) || !std::isfinite(arguments.scale))
      fail("formats", {.argument = "NUMBER and --scale",
                       .expected = "finite numbers",
                       .found = fmt::format("{} and {}", *arguments.number, arguments.scale)});
    return formats::number_text(*arguments.number, arguments.scale);
  }
  return arguments.json   ? formats::table_json()
         : arguments.bits ? formats::layout_text()
                          : formats::table_text();
}

}  // namespace

void add_formats(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("formats", "Print the table of number formats, or one number in each");
  auto arguments = std::make_shared<FormatsArguments>();
  auto* number =
      command->add_option("NUMBER", arguments->number, "Round this number to each format")
          ->check(real_number());
  command->add_option("--scale", arguments->scale, "Multiply NUMBER by this first")
      ->check(real_number())
      ->needs(number)
      ->type_name("S")
      ->capture_default_str();
  auto* json = command->add_flag("--json", arguments->json, "Print JSON instead of text");
  json->excludes(number);
  command->add_flag("--bits", arguments->bits, "Draw the bits of each format")
      ->excludes(json)
      ->excludes(number);
  command->callback([arguments] { fmt::print("{}", formats_output(*arguments)); });
}

}  // namespace binade::cli
