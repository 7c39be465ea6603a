"""Chat templates."""
from cases import case


def chat_template():
    def made(label, source, *parts):
        case(f"chat_template/{label}.jinja", source, *parts)

    made("tag_open", "a\n{% if messages", "line 2", "expected '%}', found the end of the template")
    made("block_open", "{% for m in messages %}\n\n{{ m }}", "line 3", "'{% endfor %}'", "the end of the template")
    made("comment_open", "{# a", "line 1", "'#}' after '{#'")
    made("raw_open", "{% raw %} a", "line 1", "'{% endraw %}'")
    made("text_open", "{{ 'abc }}", "line 1", "the end of a text")
    made("other_end", "{% if 1 %}\n{% endfor %}", "line 2", "'{% endif %}'", 'found "endfor"')
    made("end_alone", "{% endif %}", "expected a tag: if, for", 'found "endif"')
    made("other_tag", "{% include 'secrets.txt' %}", "expected a tag: if, for", 'found "include"')
    made("bracket", "{{ (1 }}", "expected ')', found '}'")
    made("no_expression", "{{ }}", "expected an expression")
    made("no_operand", "{{ 1 + }}", "expected an expression")
    made("other_byte", "{{ 1 ! 2 }}", "a token of an expression", 'found "!"')
    made("bad_escape", "{{ '\\ud800' }}", "an escape of a character")
    made("number_too_large", "{{ 99999999999999999999 }}", "a whole number of 64 bits")
    made("break_alone", "{% break %}", "a loop around it")
    made("recursive", "{% for m in messages recursive %}{% endfor %}", "a loop that is not recursive")
    made("star_arguments", "{{ f(*messages) }}", "arguments that are written out")
    made("deep_brackets", "{{ " + "(" * 200 + "1" + ")" * 200 + " }}", "at most 100 levels")
    made("deep_tags", "{% if 1 %}" * 150, "at most 100 tags in one another")
    made("long_sum", "{{ 1" + " + 1" * 300 + " }}", "at most 200 levels")
    made("unknown_filter", "{{ 1 | shout }}", "a filter that Binade knows", 'found "shout"')
    made("unknown_test", "{{ 1 is shouted }}", "a test that Binade knows", 'found "shouted"')
    made("unknown_method", "{{ 'a'.encode() }}", "a method that Binade knows", "encode()")
    made("undefined_attribute", "\n\n{{ tool.name }}", "line 3", 'undefined "tool"')
    made("adds_number", "{{ 'a' + 1 }}", "values for +", "the integer 1")
    made("changes_list", "{{ messages.append(1) }}", "methods that change nothing")
    made("python", "{{ ''.__class__.__mro__ }}", "the attribute \"__mro__\"")
    made("raises", "{{ raise_exception('Never\x1b[0m') }}", "a conversation that the template takes", "Never")
    made("endless", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "at most 10000000 steps")
    made("long_text", "{{ 'ab' * 99999999 }}", "texts of at most 67108864 bytes")
    made("grows", "{% set n = namespace(t='abcdefgh') %}{% for i in range(99) %}{% set n.t = n.t ~ n.t %}{% endfor %}", "expected")
    made("recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "at most 60 deep")
    made("deep_list", "{% set n = namespace(l=[]) %}{% for i in range(99) %}{% set n.l = [n.l] %}{% endfor %}", "at most 80 levels")
    made("wide_list", "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
         "at most 4000000 values")
    made("range", "{{ range(10000000) }}", "at most 100000 numbers")
