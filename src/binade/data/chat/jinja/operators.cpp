#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "binade/data/chat/jinja/builtins.h"

namespace binade::data::jinja {
namespace {

[[noreturn]] void refuse_operands(const char* operation, const Value& a, const Value& b) {
  refuse(std::string("values for ") + operation, described(a) + " and " + described(b));
}

[[noreturn]] void refuse_large(const char* operation) {
  refuse(std::string("a result of ") + operation + " within 64 bits", "a larger one");
}

void require_numbers(const char* operation, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) refuse_operands(operation, a, b);
}

void require_divisor(const Value& b) {
  if (b.as_double() == 0) refuse("a divisor", "zero");
}

std::vector<Value> joined_items(const List& a, const List& b) {
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return items;
}

bool is_plain(const List* list) {
  return list != nullptr && (list->form == ListForm::list || list->form == ListForm::tuple);
}

Value repeated(Work& work, const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (const std::string* text = value.text()) {
    work.make_text(static_cast<double>(text->size()) * static_cast<double>(count));
    std::string result;
    for (int64_t i = 0; i < count && !text->empty(); ++i) result += *text;
    return Value(std::move(result));
  }
  const List& list = *value.list();
  work.make_list(static_cast<double>(list.items.size()) * static_cast<double>(count));
  std::vector<Value> items;
  for (int64_t i = 0; i < count && !list.items.empty(); ++i)
    items.insert(items.end(), list.items.begin(), list.items.end());
  return Value::list(std::move(items), list.form);
}

int64_t whole_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) refuse_large("**");
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) refuse_large("**");
  }
  return result;
}

}  // namespace

Value add(Work& work, const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a.whole(), b.whole(), &sum)) refuse_large("+");
    return Value(sum);
  }
  if (a.is_number() && b.is_number()) return Value(a.as_double() + b.as_double());
  if (a.text() && b.text()) {
    work.make_text(static_cast<double>(a.text()->size() + b.text()->size()));
    if (!a.is_markup() && !b.is_markup()) return Value(*a.text() + *b.text());
    const auto part = [](const Value& one) {
      return one.is_markup() ? *one.text() : escaped_html(*one.text());
    };
    return Value::markup(std::make_shared<const std::string>(part(a) + part(b)));
  }
  if (is_plain(a.list()) && is_plain(b.list()) && a.list()->form == b.list()->form) {
    work.make_list(static_cast<double>(a.list()->items.size() + b.list()->items.size()));
    return Value::list(joined_items(*a.list(), *b.list()), a.list()->form);
  }
  refuse_operands("+", a, b);
}

Value subtract(const Value& a, const Value& b) {
  require_numbers("-", a, b);
  if (!a.is_whole() || !b.is_whole()) return Value(a.as_double() - b.as_double());
  int64_t difference = 0;
  if (__builtin_sub_overflow(a.whole(), b.whole(), &difference)) refuse_large("-");
  return Value(difference);
}

Value multiply(Work& work, const Value& a, const Value& b) {
  const auto is_sequence = [](const Value& value) {
    return value.text() || is_plain(value.list());
  };
  if (is_sequence(a) && b.is_whole()) return repeated(work, a, b.whole());
  if (is_sequence(b) && a.is_whole()) return repeated(work, b, a.whole());
  require_numbers("*", a, b);
  if (!a.is_whole() || !b.is_whole()) return Value(a.as_double() * b.as_double());
  int64_t product = 0;
  if (__builtin_mul_overflow(a.whole(), b.whole(), &product)) refuse_large("*");
  return Value(product);
}

Value divide(const Value& a, const Value& b) {
  require_numbers("/", a, b);
  require_divisor(b);
  return Value(a.as_double() / b.as_double());
}

Value floor_divide(const Value& a, const Value& b) {
  require_numbers("//", a, b);
  require_divisor(b);
  if (!a.is_whole() || !b.is_whole()) {
    const double x = a.as_double(), y = b.as_double();
    double rest = std::fmod(x, y);
    if (rest != 0 && (rest < 0) != (y < 0)) rest += y;
    return Value(std::nearbyint((x - rest) / y));
  }
  const int64_t x = a.whole(), y = b.whole();
  if (y == -1) return negative(Value(x));
  return Value(x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0));
}

Value modulo(const Value& a, const Value& b) {
  require_numbers("%", a, b);
  require_divisor(b);
  if (!a.is_whole() || !b.is_whole()) {
    const double y = b.as_double();
    double rest = std::fmod(a.as_double(), y);
    if (rest != 0 && (rest < 0) != (y < 0)) rest += y;
    return Value(rest);
  }
  const int64_t y = b.whole(), rest = y == -1 ? 0 : a.whole() % y;
  return Value(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
}

Value power(const Value& a, const Value& b) {
  require_numbers("**", a, b);
  if (a.is_whole() && b.is_whole() && b.whole() >= 0)
    return Value(whole_power(a.whole(), b.whole()));
  if (a.as_double() == 0 && b.as_double() < 0) refuse("a positive power of zero", described(b));
  const double result = std::pow(a.as_double(), b.as_double());
  if (std::isnan(result) || (std::isinf(result) && std::isfinite(a.as_double())))
    refuse("a power that is a number", described(a) + " ** " + described(b));
  return Value(result);
}

Value negative(const Value& a) {
  if (a.real()) return Value(-*a.real());
  if (!a.is_whole()) refuse("a number", described(a));
  if (a.whole() == std::numeric_limits<int64_t>::min()) refuse_large("-");
  return Value(-a.whole());
}

}  // namespace binade::data::jinja
