#include "binade/train/order.h"

#include <string_view>
#include <utility>

#include "binade/base/error.h"

namespace binade::train {
namespace {

constexpr std::pair<Order, std::string_view> order_names[] = {
    {Order::step, "step"},       {Order::evaluate, "evaluate"}, {Order::state, "state"},
    {Order::weights, "weights"}, {Order::times, "times"},       {Order::load, "load"},
    {Order::init, "init"},       {Order::adapter, "adapter"},   {Order::recipe, "recipe"},
    {Order::end, "end"}};

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

}  // namespace binade::train
