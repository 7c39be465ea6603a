#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/chat/jinja/from_json.h"
#include "binade/data/chat/jinja/template.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

namespace jinja = binade::data::jinja;

// A conversation with tools and with messages of every kind.
jinja::Template::Variables conversation() {
  static const binade::json::Document document = binade::json::parse(
      R"({"messages": [{"role": "system", "content": " Be brief.\n"},
          {"role": "user", "content": [{"type": "text", "text": "\u00e9\ud83d\ude00"}]},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "123456789", "type": "function",
            "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null]}}}]},
          {"role": "tool", "content": "{}"}, {"role": "assistant", "content": "<think>\nx</think> y"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
          {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}}}],
        "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 3})",
      {"fuzz", "conversation"});
  jinja::Template::Variables variables;
  for (const auto& [name, value] : document.root().object())
    variables.emplace_back(name, jinja::value_of(value));
  return variables;
}

constexpr std::string_view words[] = {"{% for m in messages %}",
                                      "{% endfor %}",
                                      "{% if n %}",
                                      "{% elif m %}",
                                      "{% else %}",
                                      "{% endif %}",
                                      "{% set x = ",
                                      "{% set ns.a = ",
                                      "namespace(a=",
                                      "{% set x %}",
                                      "{% endset %}",
                                      "{% macro f(a, b=1) %}",
                                      "{% endmacro %}",
                                      "{% generation %}",
                                      "{% endgeneration %}",
                                      "{% break %}",
                                      "{% continue %}",
                                      "{% raw %}",
                                      "{% endraw %}",
                                      "{#",
                                      "#}",
                                      "{{",
                                      "}}",
                                      "{{-",
                                      "-}}",
                                      "{%-",
                                      "-%}",
                                      "{%+",
                                      "+%}",
                                      " %}",
                                      "messages",
                                      "[1:]",
                                      "[::-1]",
                                      "['content']",
                                      ".content",
                                      ".role",
                                      ".items()",
                                      ".split('x')",
                                      ".strip()",
                                      ".get('a', 1)",
                                      "loop.index",
                                      "loop.previtem",
                                      "|tojson",
                                      "|tojson(indent=2)",
                                      "|trim",
                                      "|length",
                                      "|join(',')",
                                      "|map(attribute='role')",
                                      "|map('upper')",
                                      "|selectattr('role', 'equalto', 'user')",
                                      "|list",
                                      "|sort",
                                      "|unique",
                                      "|dictsort",
                                      "|int",
                                      "|float",
                                      "|round(2)",
                                      "|replace('a', 'bb')",
                                      "|indent",
                                      "|default('x')",
                                      "|first",
                                      "|last",
                                      "|string",
                                      "f(n)",
                                      "range(99999)",
                                      "'ab' * 99",
                                      " + ",
                                      " ~ ",
                                      " ** ",
                                      " // ",
                                      " % ",
                                      " in ",
                                      " not in ",
                                      " is ",
                                      " is not ",
                                      "defined",
                                      "none",
                                      "string",
                                      "mapping",
                                      " and ",
                                      " or ",
                                      "not ",
                                      " if ",
                                      " else ",
                                      "(",
                                      ")",
                                      "[",
                                      "]",
                                      "{'a': ",
                                      "}",
                                      ", ",
                                      "=",
                                      "'\\u00e9'",
                                      "1e308",
                                      "9223372036854775807",
                                      "strftime_now('%d')",
                                      "raise_exception('x')",
                                      "loop.cycle(1, 2)",
                                      "{% set x = [x, x] %}",
                                      "\n",
                                      "  "};

}  // namespace

// A template is refused, or it writes a text in which its generation blocks lie, twice the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const jinja::Template::Variables variables = conversation();
  try {
    const jinja::Template made({reinterpret_cast<const char*>(data), size}, "input.jinja");
    const jinja::Rendered first = made.render(variables, std::tm{}),
                          second = made.render(variables, std::tm{});
    if (first.text != second.text || first.generated != second.generated) std::abort();
    for (const auto& [begin, end] : first.generated) {
      if (begin > end || end > first.text.size()) std::abort();
    }
  } catch (const binade::Error&) {
  }
  return 0;
}

// Words of the language, put in or in the place of bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::mt19937 draw(seed);
  if (draw() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(reinterpret_cast<const char*>(data), size);
  for (unsigned i = 0, count = 1 + draw() % 4; i < count; ++i) {
    const size_t at = draw() % (text.size() + 1);
    text.replace(at, draw() % 3 == 0 ? draw() % 12 : 0, words[draw() % std::size(words)]);
  }
  text.resize(std::min(text.size(), max_size));
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
