#include "binade/train/run/order.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"

namespace binade::train {
namespace {

constexpr std::pair<Order, std::string_view> order_names[] = {
    {Order::step, "step"},           {Order::evaluate, "evaluate"},
    {Order::state, "state"},         {Order::hash, "hash"},
    {Order::weights, "weights"},     {Order::times, "times"},
    {Order::load, "load"},           {Order::init, "init"},
    {Order::adapter, "adapter"},     {Order::recipe, "recipe"},
    {Order::reference, "reference"}, {Order::shard, "shard"},
    {Order::join, "join"},           {Order::end, "end"}};

}  // namespace

std::string to_text(const Command& command) {
  std::string text;
  for (const auto& [order, name] : order_names) {
    if (order == command.order) text = name;
  }
  return command.argument.empty() ? text : text + " " + command.argument;
}

Command parse_command(const std::string& text) {
  const size_t space = text.find(' ');
  const std::string_view word = std::string_view(text).substr(0, space);
  for (const auto& [order, name] : order_names) {
    if (word == name)
      return {order, space == std::string::npos ? std::string() : text.substr(space + 1)};
  }
  fail("ranks", {.argument = "order", .expected = "one of rank 0's", .found = text});
}

// A line with the module, one with the amaxes, and the recipe's.
std::string to_text(const RecipeOrder& order) {
  std::string text = order.module + "\n";
  for (const amp::Role role : amp::layer_roles) {
    // Streams do not read infinities.
    const double amax = order.amaxes[role];
    text += fmt::format("{} ", std::isfinite(amax) ? amax : 0);
  }
  return text + "\n" + amp::to_text(order.recipe);
}

RecipeOrder parse_recipe_order(const std::string& text) {
  std::istringstream in(text);
  RecipeOrder order;
  std::string amaxes, recipe;
  std::getline(in, order.module);
  std::getline(in, amaxes);
  std::getline(in, recipe);
  std::istringstream numbers(amaxes);
  for (const amp::Role role : amp::layer_roles) numbers >> order.amaxes[role];
  if (!in || !numbers)
    fail("ranks",
         {.argument = "order", .expected = "a module, its amaxes and its recipe", .found = text});
  order.recipe = amp::parse_recipe(recipe);
  return order;
}

}  // namespace binade::train
