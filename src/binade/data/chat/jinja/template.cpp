#include "binade/data/chat/jinja/template.h"

#include "binade/base/error.h"
#include "binade/data/chat/jinja/evaluator.h"
#include "binade/data/chat/jinja/python_text.h"

namespace binade::data::jinja {
namespace {

[[noreturn]] void fail_at(const std::string& file, int line, std::string expected,
                          std::string found) {
  fail("chat", {.argument = file + ", line " + std::to_string(line),
                .expected = std::move(expected),
                .found = std::move(found)});
}

}  // namespace

Template::Template(std::string_view source, std::string file) : file_(std::move(file)) {
  if (source.size() > max_source)
    fail_at(file_, 1, "a template of at most " + std::to_string(max_source) + " bytes",
            std::to_string(source.size()));
  std::string storage;
  try {
    parsed_ = std::make_unique<const Parsed>(parse_template(valid_utf8(source, storage)));
  } catch (LocatedRefusal& refusal) {
    fail_at(file_, refusal.line, std::move(refusal.expected), std::move(refusal.found));
  }
}

Template::~Template() = default;

Rendered Template::render(const Variables& variables, const std::tm& now) const {
  Evaluator evaluator(*parsed_, now);
  for (const auto& [name, value] : variables) evaluator.set_variable(name, value);
  try {
    evaluator.run();
  } catch (Refusal& refusal) {
    fail_at(file_, evaluator.line(), std::move(refusal.expected), std::move(refusal.found));
  }
  return {evaluator.take_text(), evaluator.take_generated()};
}

bool Template::has_generation() const { return parsed_->has_generation; }

}  // namespace binade::data::jinja
