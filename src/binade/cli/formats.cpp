#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <optional>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/values.h"
#include "binade/formats/parse.h"
#include "binade/formats/table.h"

namespace binade::cli {
namespace {

struct FormatsArguments {
  std::optional<double> number;
  double scale = 1;
  std::string format;
  bool json = false, bits = false;
};

std::string number_output(const FormatsArguments& arguments) {
  const double number = *arguments.number, scale = arguments.scale;
  if (arguments.format.empty())
    return arguments.json ? formats::number_json(number, scale, formats::number_formats())
                          : formats::number_text(number, scale);
  const formats::Format format = formats::parse(arguments.format);
  return arguments.json ? formats::number_json(number, scale, {&format, 1})
                        : formats::number_text(number, scale, format);
}

std::string formats_output(const FormatsArguments& arguments) {
  if (arguments.number) {
    if (!std::isfinite(*arguments.number) || !std::isfinite(arguments.scale))
      fail("formats", {.argument = "NUMBER and --scale",
                       .expected = "finite numbers",
                       .found = fmt::format("{} and {}", *arguments.number, arguments.scale)});
    return number_output(arguments);
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
  command
      ->add_option("--in", arguments->format,
                   "Round to this format alone, such as e3m4, e4m3b11fnuz, ue8m0 or int4")
      ->needs(number)
      ->type_name("FORMAT");
  auto* json = command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->add_flag("--bits", arguments->bits, "Draw the bits of each format")
      ->excludes(json)
      ->excludes(number);
  command->callback([arguments] { fmt::print("{}", formats_output(*arguments)); });
}

}  // namespace binade::cli
