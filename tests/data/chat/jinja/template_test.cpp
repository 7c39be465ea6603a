#include "binade/data/chat/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/chat/jinja/from_json.h"
#include "binade/data/chat/message.h"
#include "io/temporary_folder.h"

namespace binade::data::jinja {
namespace {

using ::testing::HasSubstr;

// The day on which tests/golden/chat_jinja.py recorded: 9 March 2025, 8:05:07, a Sunday.
std::tm recorded_day() {
  std::tm day = {};
  day.tm_year = 125;
  day.tm_mon = 2;
  day.tm_mday = 9;
  day.tm_hour = 8;
  day.tm_min = 5;
  day.tm_sec = 7;
  day.tm_wday = 0;
  day.tm_yday = 67;
  return day;
}

class JinjaGolden : public ::testing::Test {
 protected:
  const json::Value& root() const { return document_.root(); }

  // Adds the members of an object as variables.
  static void add(Template::Variables& variables, const json::Value& object) {
    for (const auto& [name, value] : object.object()) variables.emplace_back(name, value_of(value));
  }

 private:
  json::Document document_ =
      json::parse(binade::testing::content_of(binade::testing::golden("chat/jinja.json")),
                  {"test", "jinja.json"});
};

// A text, or the message of an error.
struct JinjaOutcome {
  std::optional<Rendered> rendered = {};
  std::string error = {};
};
JinjaOutcome outcome_of(const Template& made, const Template::Variables& variables) {
  try {
    return {made.render(variables, recorded_day())};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}
JinjaOutcome outcome_of(const std::string& source, const Template::Variables& variables = {}) {
  try {
    return outcome_of(Template(source, "test.jinja"), variables);
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

// Transformers counts characters, Binade bytes.
std::vector<std::pair<size_t, size_t>> spans_of(const json::Value& spans, const std::string& text) {
  const auto byte_at = [&](size_t characters) {
    size_t at = 0;
    for (; characters > 0; --characters) do
        ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U);
    return at;
  };
  std::vector<std::pair<size_t, size_t>> bytes;
  for (const json::Value& span : spans.array()) {
    const auto end = [&](size_t i) {
      return byte_at(static_cast<size_t>(span.array()[i].integer(0, 1 << 20)));
    };
    bytes.emplace_back(end(0), end(1));
  }
  return bytes;
}

TEST_F(JinjaGolden, TemplatesRenderAsInTransformers) {
  std::map<std::string, std::unique_ptr<const Template>> templates;
  for (const auto& [name, source] : root().at("templates").object())
    templates[name] = std::make_unique<const Template>(source.string(), name);
  EXPECT_GE(templates.size(), 12u);
  size_t texts = 0, refused = 0;
  for (const json::Value& one : root().at("cases").array()) {
    const std::string &name = one.at("template").string(), &title = one.at("conversation").string();
    const json::Value& given = root().at("conversations").at(title);
    Template::Variables variables{{"add_generation_prompt", Value(one.at("prompt").boolean())},
                                  {"tools", Value(nullptr)},
                                  {"documents", Value(nullptr)}};
    add(variables, root().at("special"));
    if (const json::Value* tools = given.find("tools")) variables[1].second = value_of(*tools);
    std::vector<Value> messages;
    for (const json::Value& message : given.at("messages").array())
      messages.push_back(template_value(message_of(message)));
    variables.emplace_back("messages", Value::list(std::move(messages)));
    const JinjaOutcome made = outcome_of(*templates.at(name), variables);
    SCOPED_TRACE(name + ": " + title + (one.at("prompt").boolean() ? ", prompt" : ""));
    if (one.find("error") != nullptr) {
      EXPECT_FALSE(made.rendered) << made.rendered->text;
      ++refused;
      continue;
    }
    ASSERT_TRUE(made.rendered) << made.error << "\nexpected " << one.at("text").string();
    EXPECT_EQ(made.rendered->text, one.at("text").string());
    if (const json::Value* spans = one.find("generated")) {
      EXPECT_EQ(made.rendered->generated, spans_of(*spans, made.rendered->text));
    }
    ++texts;
  }
  EXPECT_GT(texts, 350u);
  EXPECT_GT(refused, 60u);
}

TEST_F(JinjaGolden, ExpressionsAreThoseOfJinja2) {
  Template::Variables variables;
  add(variables, root().at("variables"));
  size_t count = 0;
  for (const json::Value& one : root().at("grid").array()) {
    const std::string& source = one.at("source").string();
    const JinjaOutcome made = outcome_of(source, variables);
    if (one.find("error") != nullptr) {
      EXPECT_FALSE(made.rendered) << source << "\nexpected " << one.at("error").string()
                                  << ", found " << made.rendered->text;
    } else if (made.rendered) {
      EXPECT_EQ(made.rendered->text, one.at("text").string()) << source;
    } else {
      ADD_FAILURE() << source << "\nexpected " << one.at("text").string() << "\nfound "
                    << made.error;
    }
    ++count;
  }
  EXPECT_GT(count, 300u);
}

std::string refused_text(const std::string& source, const Template::Variables& variables = {}) {
  const JinjaOutcome made = outcome_of(source, variables);
  return made.rendered ? "no error" : made.error;
}

TEST(JinjaTemplate, ErrorsNameTheLineAndWhatWasFound) {
  EXPECT_THAT(
      refused_text("a\nb\n{{ x.y }}"),
      HasSubstr("test.jinja, line 3: expected a value to take the attribute \"y\" of, found "
                "undefined \"x\""));
  EXPECT_THAT(refused_text("\n{% if 1 %}"),
              HasSubstr("line 2: expected '{% elif %}' or '{% else %}' or '{% endif %}', found the "
                        "end of the template"));
  EXPECT_THAT(refused_text("{% include 'x' %}"), HasSubstr("line 1: expected a tag: if, for"));
  EXPECT_THAT(refused_text("{{ 1|shout }}"), HasSubstr("a filter that Binade knows"));
  EXPECT_THAT(refused_text("\n\n{{ raise_exception('No such role') }}"),
              HasSubstr("line 3: expected a conversation that the template takes, found \"No such "
                        "role\""));
  EXPECT_THAT(refused_text("{{ [].append(1) }}"), HasSubstr("methods that change nothing"));
  EXPECT_THAT(refused_text("{% macro m(a) %}\n{{ a + 1 }}{% endmacro %}\n{{ m('x') }}"),
              HasSubstr("line 2: expected values for +, found the text \"x\" and the integer 1"));
}

TEST(JinjaTemplate, WorkIsLimited) {
  const std::string loops =
      "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
  EXPECT_THAT(refused_text(loops), HasSubstr("at most 10000000 steps"));
  EXPECT_THAT(refused_text("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("macros that call one another at most 60 deep"));
  EXPECT_THAT(refused_text("{{ 'ab' * 99999999 }}"), HasSubstr("texts of at most 67108864 bytes"));
  EXPECT_THAT(refused_text("{% set n = namespace(t='abcdefgh') %}{% for i in range(40) %}"
                           "{% set n.t = n.t ~ n.t %}{% endfor %}"),
              HasSubstr("expected"));
  EXPECT_THAT(refused_text("{% set n = namespace(l=[]) %}{% for i in range(99) %}"
                           "{% set n.l = [n.l] %}{% endfor %}"),
              HasSubstr("at most 80 levels"));
  EXPECT_THAT(refused_text("{% set n = namespace(l=[1]) %}{% for i in range(60) %}"
                           "{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}"),
              HasSubstr("at most 4000000 values"));
  EXPECT_THAT(refused_text("{{ range(100001) }}"), HasSubstr("at most 100000 numbers"));
  EXPECT_THAT(refused_text(std::string(1 << 20, ' ') + "x"), HasSubstr("at most 1048576 bytes"));
}

// Each of these took minutes or gigabytes by work that was not counted as steps.
TEST(JinjaTemplate, WorkOnLongTextsAndManyItemsIsCounted) {
  const std::string long_text = "{% set x = 'b' * 9000000 %}", loop = "{% for i in range(9999) %}",
                    end = "{% endfor %}", steps = "at most 10000000 steps";
  EXPECT_EQ(refused_text("{{ (['b' * 1000000] + ['a'] * 100000)|max|length }}"), "no error");
  for (const char* body : {"{% if x|length %}{% endif %}", "{% if x is lower %}{% endif %}",
                           "{% if x|float %}{% endif %}", "{% if x|int %}{% endif %}"})
    EXPECT_THAT(refused_text(long_text + loop + body + end), HasSubstr(steps)) << body;
  for (const char* whole :
       {"{% for c in x %}{% break %}{% endfor %}", "{% set a, b = x %}", "{{ x|first }}",
        "{{ x.strip('b' * 9999999) }}", "{{ x.find('b' * 9999999 ~ 'a') }}",
        "{{ x.rfind('a' ~ x[1:]) }}", "{% if x[:2999999] ~ 'a' in x %}{% endif %}"})
    EXPECT_THAT(refused_text(long_text + whole), HasSubstr("expected")) << whole;
  EXPECT_THAT(refused_text("{{ (['a'] * 50000)|map(attribute='0.' * 200000 ~ '0')|list }}"),
              HasSubstr(steps));
  EXPECT_THAT(refused_text("{% set t = ('b',) * 100000 %}" + loop +
                           "{% if 'a'.startswith(t) %}{% endif %}" + end),
              HasSubstr(steps));
  EXPECT_THAT(refused_text("{{ ([0] * 1000000)|tojson(separators=('a' * 1000000, ':')) }}"),
              HasSubstr("texts of at most 67108864 bytes"));
  EXPECT_THAT(refused_text("{{ ('a ' * 30000000).split() }}"), HasSubstr("a list of at most"));
}

TEST(JinjaTemplate, LookingUpNamesAndKeysIsCounted) {
  std::string many;
  for (int i = 0; i < 30000; ++i) many += "{%set a" + std::to_string(i) + "=0%}";
  EXPECT_THAT(refused_text(many), HasSubstr("at most 10000000 steps"));
  const std::string dict =
                        "{% set n = namespace(l=[], m=[]) %}{% for i in range(1500) %}{% set n.l = "
                        "n.l + [(i, i)] %}"
                        "{% set n.m = [(i, i)] + n.m %}{% endfor %}{% set d = dict(n.l) %}",
                    loop = "{% for i in range(99999) %}", end = "{% endfor %}";
  EXPECT_THAT(refused_text(dict + loop + "{% if d.x %}{% endif %}" + end), HasSubstr("steps"));
  EXPECT_THAT(refused_text(dict + loop + "{% set e = dict(d) %}" + end), HasSubstr("steps"));
  EXPECT_EQ(outcome_of(dict + "{{ d == dict(n.l) }}").rendered->text, "True");
  EXPECT_THAT(refused_text(dict + "{{ d == dict(n.m) }}"), HasSubstr("at most 256 members"));
  std::string names = "a=1";
  for (int i = 0; i < 1000; ++i) names += ", a" + std::to_string(i) + "=1";
  EXPECT_THAT(refused_text("{{ dict(" + names + ") }}"), HasSubstr("at most 1000 arguments"));
}

TEST(JinjaTemplate, NestingIsLimited) {
  const auto repeated = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_THAT(refused_text("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}"),
              HasSubstr("at most 100 levels"));
  EXPECT_THAT(refused_text("{{ " + repeated("-", 5000) + "1 }}"), HasSubstr("at most 100 levels"));
  EXPECT_THAT(refused_text("{{ " + repeated("not ", 5000) + "1 }}"),
              HasSubstr("at most 100 levels"));
  EXPECT_THAT(refused_text("{{ 1" + repeated(" + 1", 5000) + " }}"),
              HasSubstr("at most 200 levels"));
  EXPECT_THAT(refused_text("{{ x" + repeated("|trim", 5000) + " }}"),
              HasSubstr("at most 200 levels"));
  EXPECT_THAT(refused_text(repeated("{% if 1 %}", 5000)), HasSubstr("at most 100 tags"));
  EXPECT_THAT(refused_text("{% if 1 %}" + repeated("{% elif 1 %}", 5000)), HasSubstr("expected"));
  EXPECT_EQ(refused_text("{{ 1" + repeated(" ~ 1", 5000) + " }}"), "no error");
}

// Namespaces may hold themselves and one another.
TEST(JinjaTemplate, CirclesAreTakenApart) {
  const JinjaOutcome made = outcome_of(
      "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set a.a = a %}"
      "{{ a.b.a.a.b.a is defined }}{% set a.m %}{{ a.x }}{% endset %}");
  ASSERT_TRUE(made.rendered) << made.error;
  EXPECT_EQ(made.rendered->text, "True");
}

TEST(JinjaTemplate, InvalidUtf8IsReplaced) {
  EXPECT_EQ(outcome_of("a\xFF"
                       "b")
                .rendered->text,
            "a\xEF\xBF\xBD"
            "b");
}

}  // namespace
}  // namespace binade::data::jinja
