"""Expressions and small templates for chat_jinja.py. Those with {% stand as they are, others in {{ }}."""

EXPRESSIONS = [line for line in r'''
1 + 2 * 3
(1 + 2) * 3
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3
7.5 // 2, -7.5 % 2
2 ** 10, 2 ** -1, -2 ** 2, 2 ** 3 ** 2
1 / 2, 4 / 2
1 / 0
1 // 0
1 % 0
1e3, 1.0, 0.1, 1e16, 1e15, 123456789012345678.0, 1e-5, 0.0001, 1.5e300, 1_000
0.1 + 0.2
10 ** 2.0
-n, +n, - -n
-n|abs
not n, not e
true + 1, false * 5
True, False, None, true, false, none
"a" ~ 1 ~ none ~ 2.0 ~ true
"a" + 1
"a" * 3, 3 * "ab", [1] * 2
"a" "b" 'c'
"\n\t\\\"\x41\u00e9\U0001F600\101\q"
'it\'s'
[1, "a", 2.5, none, true, [1, 2], (1,), (1, 2), {"k": "v"}]
{"a": 1, 'b': [1], 3: none, "a": 2}
["it's", 'say "x"', "it's \"x\"", "\\", "\n\r\t\x00\x7f", "é", "\u200b", "\ue000", "\U000e0001"]
()
(1,)
1, 2
[1, 2, ]
l[0], l[-1], l[5], l[1:], l[:-1], l[::-1], l[::2], l[-2:], l[5:], l[2:0:-1], l[:100]
l[::0]
t[0], t[-1], t[8], t[7:10], t[::-1], t[:5], t[-3:], t[100:], t[::3]
t[100]
d.b, d["b"], d.a[1].k, d["a"][0]
d.missing
d.missing.more
d["missing"]["more"]
missing
missing.x
missing["x"]
missing + "x"
"x" + missing
missing ~ "x"
missing == missing, missing == none, missing == ""
missing < 1
not missing
missing or "other"
missing and "other"
missing if true
1 if false
"a" if n > 2 else "b"
"a" if n > 5 else "b" if n > 1 else "c"
1 < 2 < 3, 1 < 3 < 2, 3 == 3.0, 1 == true, "1" == 1
n >= 3 and n <= 3 or missing.x
"a" < "b", "B" < "a", [1, 2] < [1, 3], [1] < [1, 0]
"a" < 1
none < none
1 != 2, [1] == [1], (1,) == [1], {"a": 1} == {"a": 1.0}
2 in l, 9 in l, 9 not in l, "W" in t, "b" in d, 1 in d, "x" in missing, none in [none]
1 in "abc"
"a" in none
"a" in 5
n is defined, missing is defined, missing is not defined, d.x is undefined
z is none, n is none, z is not none
t is string, n is string, n is number, x is number, yes is number, n is integer, yes is integer, x is float, yes is boolean
d is mapping, l is mapping, l is sequence, d is sequence, t is sequence, n is sequence, missing is sequence
l is iterable, t is iterable, n is iterable, d is iterable, missing is iterable
n is odd, n is even, 9 is divisibleby 3, 9 is divisibleby(4)
n is eq 3, n is equalto 3, n is ne 3, n is gt 2, n is lt 2, n is ge 3, n is le 3, n is sameas 3
n is in [1, 3], n is in(l), "x" is in "xyz"
yes is true, yes is false, n is true, 1 is true
t is lower, "abc" is lower, "ABC" is upper, "A1" is upper, "1" is upper
range is callable, t is callable, missing is callable
"trim" is filter, "nothing" is filter, "odd" is test
n is nonsense
n is defined and n > 1
n is string or n is number
t is string and "H" in t
padded|trim, padded.strip(), "xxaxx"|trim("x"), "xxaxx".strip("x"), "xxaxx".lstrip("x"), "xxaxx".rstrip("x")
[padded.lstrip(), padded.rstrip()]
missing|trim
z|trim
n|trim
t|upper, t|lower, t|title, t|capitalize, "o'neil mc-donald (the x)"|title
t.upper(), t.lower(), t.title(), t.capitalize(), "o'neil mc-donald x1y".title()
"straße"|upper, "ÉCOLE"|lower, "ǆ"|capitalize
n|upper
t|length, l|length, d|count, e|length, missing|length, "中文😀"|length
n|length
z|length
t|replace("l", "L"), t|replace("l", "L", 1), "aaa"|replace("", "-"), n|replace("3", "4")
t.replace("l", "L"), t.replace("l", "L", 1), "aaa".replace("", "-", 2)
t.replace(1, 2)
l|join, l|join(", "), words|join("-"), people|join(",", attribute="name"), t|join("."), missing|join(",")
", ".join(words)
", ".join(l)
missing|default("x"), missing|d("x"), e|default("x"), e|default("x", true), e|d("x", boolean=true), z|default("x"), missing|default
l|first, l|last, t|first, e|first, missing|first, d|first, d|last
n|first
missing|last
t|list, d|list, l|list, missing|list
n|list
d|items|list, d.items()|list, missing|items|list
l|items
people|map(attribute="name")|list, people|map(attribute="tags")|list, people|map(attribute="x", default="-")|join
people|map(attribute="tags.0")|list
words|map("upper")|list, words|map("replace", "a", "b")|list, words|map("length")|sum
l|map("nothing")|list
people|selectattr("ok")|list|length, people|selectattr("ok", "defined")|list|length, people|rejectattr("ok")|map(attribute="name")|list
people|selectattr("age", "gt", 1)|map(attribute="name")|join(","), people|selectattr("name", "equalto", "Bo")|list
people|selectattr("age", ">=", 2)|list|length, people|selectattr("name", "in", ["Bo"])|list|length
people|selectattr("tags.0", "equalto", "x")|list
l|select("odd")|list, l|reject("odd")|list, l|select|list, [0, 1, "", "a"]|select|list, [0, 1]|reject|list
l|select("nothing")|list
l|sort, l|sort(reverse=true), words|sort, words|sort(case_sensitive=true), people|sort(attribute="age")|map(attribute="name")|list
[1, "a"]|sort
d|dictsort, d|dictsort(true), d|dictsort(reverse=true)
{"x": 2, "y": 1}|dictsort(by="value")
l|dictsort
words|unique|list, words|unique(true)|list, [1, 1.0, 2, true]|unique|list, people|unique(attribute="name")|list|length
l|reverse|list, t|reverse, d|reverse|list
l|sum, people|sum(attribute="age"), []|sum, l|sum(start=10)
words|sum
l|min, l|max, words|min, words|max, []|min, people|max(attribute="age")
"42"|int, "4.7"|int, "x"|int, "x"|int(7), 4.9|int, -4.9|int, "0x1f"|int(0, 16), " 12 "|int, "1_0"|int, none|int, yes|int
missing|int
"1.5"|float, "x"|float, "x"|float(2.5), n|float, "1e3"|float, none|float
n|string, x|string, l|string, d|string, z|string, t|string
x|round, 2.4|round, 2.675|round(2), 1234.5678|round(1), 3|round, 2.1|round(method="ceil"), -2.1|round(0, "floor"), 3.5|round
-3|abs, -2.5|abs, yes|abs
"a"|abs
t|safe
t|tojson, n|tojson, x|tojson, z|tojson, yes|tojson, l|tojson, d|tojson
d|tojson(indent=2)
d|tojson(indent=4, ensure_ascii=true)
d|tojson(sort_keys=true)
d|tojson(separators=(",", ":"))
d|tojson(indent=2, separators=(", ", "= "))
d|tojson(indent="--")
[]|tojson(indent=2), {}|tojson(indent=2), [[]]|tojson(indent=1), (1, 2)|tojson, l|tojson(indent=0)
"<a href='x'>&é\u2028\x7f\x01\b\f/😀"|tojson
"é😀\x7f"|tojson(ensure_ascii=true)
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
missing|tojson
range(3)|tojson
1e400|tojson, -1e400, (1e400 - 1e400)|tojson
"a\nb\n\nc"|indent, "a\nb\n\nc"|indent(2, true), "a\nb\n\nc"|indent(2, blank=true), "a\nb"|indent("> "), "a\n"|indent
n|indent
t|nothing
t|upper|lower|length
t.split(), t.split(","), t.split("l", 1), "a,b,,c".split(","), padded.split(), "a b c".split(none, 1), "".split(), "".split(",")
t.rsplit("l", 1), "a b c".rsplit(none, 1), "a,b,c".rsplit(",", maxsplit=1), " a b ".rsplit()
t.split("")
"a\nb\r\nc\x0bd\u2028e".splitlines(), "a\n".splitlines(true), "".splitlines()
t.startswith("He"), t.startswith("e", 1), t.startswith(("x", "H")), t.endswith("ld"), t.endswith(("x", "d")), t.startswith("")
t.startswith(1)
t.startswith(["H"])
t.find("l"), t.find("z"), t.find("l", 4), t.find("l", 0, 2), t.rfind("l"), t.index("W"), t.count("l"), t.count(""), "éaé".find("a")
t.index("z")
"abc".isalpha(), "ab1".isalpha(), "123".isdigit(), "".isdigit(), "a1".isalnum(), " \t".isspace(), "ab".islower(), "AB".isupper(), "Ab".isupper()
"a=b=c".partition("="), "a=b=c".rpartition("="), "abc".partition("="), "abc".rpartition("=")
"abc".removeprefix("a"), "abc".removesuffix("c"), "abc".removeprefix("x")
t.nothing
t.nothing()
n.real.x()
d.get("b"), d.get("x"), d.get("x", 5), d.get("a")[0]
d.get()
d.keys()|list, d.values()|list, d.items()|length
d.items()[0]
d.keys()[0]
d.update({"x": 1})
d.pop("b")
l.append(4)
l.pop()
l.index(1), l.count(3)
l.index(9)
d.items
d.__class__
t.__class__.__mro__
"".__class__.__subclasses__()
l.__len__()
n.bit_length
missing()
n()
t()
range(5)|list, range(2, 5)|list, range(5, 0, -2)|list, range(0)|list, range(3)[1], range(3)|length, range(3)|sum
range(1000000)
range(1, 2, 0)
range()
range("a")
dict(a=1, b=2), dict({"x": 1}, y=2), dict([("a", 1)])
dict(1)
namespace(a=1).a, namespace({"b": 2}).b
namespace(_a=1)
namespace().missing
strftime_now("%Y-%m-%d %H:%M:%S %j %a %A %b %B %y %d %-d %e %I %p %%")
strftime_now()
raise_exception("no")
raise_exception()
{%- set a, b = 1, 2 %}{{ b }}{{ a }}
{%- set a, b = 1, 2, 3 %}{{ b }}
{%- set a = 1 %}{% if true %}{% set a = 2 %}{% endif %}{{ a }}
{%- set a = 1 %}{% for i in l %}{{ a }}{% set a = i %}{{ a }}{% endfor %}{{ a }}
{%- set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}
{%- set d.x = 1 %}
{%- set ns = namespace() %}{% set ns.__class__ = 1 %}
{%- set ns = namespace() %}{% set ns._x = 1 %}
{%- set a %} x {{ n }} {% endset %}[{{ a }}]
{%- set a | trim | upper %} x {{ n }} {% endset %}[{{ a }}]
{%- set a %}{% set b = 5 %}{% endset %}{{ b }}
{%- set true = 1 %}
{%- for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{%- for i in l %}{% for j in l %}{{ loop.depth }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{%- for i in l %}{{ loop.cycle("a", "b") }}{% endfor %}
{%- for i in l %}{{ loop.nothing }}{% endfor %}
{%- for k in d %}{{ k }}{% endfor %}
{%- for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{%- for k, v in d %}{{ k }}{% endfor %}
{%- for k, v in {"ab": 1} %}{{ k }}{{ v }}{% endfor %}
{%- for (k, v) in [(1, 2)] %}{{ k }}{{ v }}{% endfor %}
{%- for c in "a中b" %}{{ c }}-{% endfor %}
{%- for i in missing %}x{% else %}none{% endfor %}
{%- for i in z %}x{% endfor %}
{%- for i in 5 %}x{% endfor %}
{%- for i in [] %}x{% else %}none{% endfor %}
{%- for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.length }}{% else %}none{% endfor %}
{%- for i in l if i > 5 %}{{ i }}{% else %}none{% endfor %}
{%- for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}
{%- for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% else %}none{% endfor %}after
{%- for i in l %}{{ i }}{% endfor %}{{ i }}{{ loop }}
{%- for i in 1, 2 %}{{ i }}{% endfor %}
{%- for i in l|select("odd") %}{{ loop.index }}{{ i }}{% endfor %}
{%- set g = l|select("gt", 5) %}{% if g %}true{% endif %}{% for i in g %}x{% endfor %}
{%- set g = l|map("string") %}{{ g|list }}{{ g|list }}
{{ l|map("string")|length }}{% if 1 %}{% endif %}
{{ (l|select("odd"))[0] }}{% if 1 %}{% endif %}
{%- macro m(a, b=2, c="x") %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(1, c=3) }}{{ m() }}{{ m(b=1, a=0) }}
{%- macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{%- macro m(a) %}{{ a }}{% endmacro %}{{ m(q=2) }}
{%- macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{%- macro m(a) %}{{ a }}{{ b }}{{ n }}{% endmacro %}{% set b = 7 %}{{ m(1) }}
{%- macro f(i) %}{{ i }}{% if i > 0 %}{{ f(i - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{%- macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(4) }}
{%- macro m() %} x {% endmacro %}[{{ m()|trim }}]{{ m is callable }}{{ m() is string }}
{%- macro m(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ m(1) }}{{ y }}
{%- if n == 1 %}1{% elif n == 3 %}3{% elif n == 3 %}x{% else %}y{% endif %}
{%- if missing %}a{% else %}b{% endif %}{% if not missing %}c{% endif %}
{%- if missing.x %}a{% endif %}
{% raw %}{{ x }}{% y %}{% endraw %}|
{%- raw -%} {{ x }} {%- endraw -%} |
{# c #}|{#- c -#} | {% if 1 %}{% endif %}
a {%- if 1 -%} b {%- endif -%} c
a {%+ if 1 +%} b {% endif %} c
{% if 1 %}{{- " x " -}} y {{ "z" }}{% endif %}
{{ "}}" }}{{ '%}' }}{{ {"a": {"b": 1}} }}{% if 1 %}{% endif %}
{{ "{{" }}{ {{ n }} }{% if 1 %}{% endif %}
{% if 1 %}
{% endif 1 %}
{% if %}
{% if 1 %}
{% else %}
{% endfor %}
{% nothing %}
{% set %}
{% set x = %}
{% for x %}
{% for x in %}
{% macro %}
{{ }}{% if 1 %}{% endif %}
{{ n {% if 1 %}{% endif %}
{{ n + }}{% if 1 %}{% endif %}
{{ (n }}{% if 1 %}{% endif %}
{{ [1, 2 }}{% if 1 %}{% endif %}
{{ "abc }}{% if 1 %}{% endif %}
{{ n ! 2 }}{% if 1 %}{% endif %}
{{ n | }}{% if 1 %}{% endif %}
{{ n . }}{% if 1 %}{% endif %}
{{ n is }}{% if 1 %}{% endif %}
{{ 1 2 }}{% if 1 %}{% endif %}
{{ a = 1 }}{% if 1 %}{% endif %}
{{ m(a=1, 2) }}{% if 1 %}{% endif %}
{{ [1](2) }}{% if 1 %}{% endif %}
{{ n is string is number }}{% if 1 %}{% endif %}
{% break %}
{# {% if 1 %}
{%- generation %}x{{ n }}{% set q = 1 %}{% endgeneration %}{{ q }}
{%- set x = 1 if false %}[{{ x }}]
{%- set x = [1, 2][0] %}{{ x }}
{{ people[0].name ~ people[1]["name"] ~ people[-1].age }}{% if 1 %}{% endif %}
{{ d.a.0 }}{{ d.a.1.k }}{% if 1 %}{% endif %}
{{ {"items": 3}.items }}{% if 1 %}{% endif %}
{{ {"items": 3}["items"] }}{% if 1 %}{% endif %}
{{ "%s" % n if false else "ok" }}{% if 1 %}{% endif %}
{{ not 1 == 2 }}{{ not true and false }}{{ 1 in [1] and not 2 in [1] }}{% if 1 %}{% endif %}
{{ -1 ** 2 }}{{ 2 - 1 - 1 }}{{ 1 ~ 2 + 3 if false }}{{ 8 / 2 / 2 }}{% if 1 %}{% endif %}
{{ n is not string and x is not none }}{% if 1 %}{% endif %}
{{ [l, l] == [l, [3, 1, 2]] }}{{ [1, [2, [3]]] }}{% if 1 %}{% endif %}
none|select|list, none|selectattr("a")|list, none|rejectattr("a", "equalto", 1)|list, none|map("upper")|list, false|map(attribute="x")|list, ""|reject|list
none|join
none|sort
"<{}-{}>".format(1, none), "{0}{1}{0}".format("a", "b"), "{a}{{}}{b}".format(a=1, b=[2]), "{}".format(missing), "".format()
"{} {}".format(1)
"{x}".format(y=1)
"}".format()
"{".format()
"<b>"|safe + "<i>" + "&'\""|safe, "<i>" + "<b>"|safe, "<b>"|safe ~ "<i>", ("<b>"|safe)|length, "a"|safe == "a"
"<a href='x'>&\""|e, "<"|escape ~ "<", "<"|e|e, n|e, "a"|e is escaped, "a" is escaped, ["<"|safe]
yes|round, yes|round(1), 3|round(2), false|round is false
n[1:]
d[::2]
d.keys()[0:1]
(l|map("string"))[1:]
'''.strip("\n").split("\n")]
MULTI_LINE = ["a\n  {% if 1 %}\n  b\n  {% endif %}\nc\n", "  {% if 1 %}x{% endif %}  \n y\n\n", "a\n\t{# c #}\nb", "x {% if 1 %}\n\n y{% endif %}",
              "a\r\nb\rc{% if 1 %}\r\nd{% endif %}", "  {{ n }}\n  {%+ if 1 %}\n  {% endif %}\n", "{% for i in l -%}\n  {{ i }}\n{%- endfor %}\n\n",
              "{%- for i in l %}\n    {{- i }}\n    {% if i == 1 +%}\n    one\n    {%- endif %}\n{% endfor %}.", "{#- c\n -#}\n  a{#+ x +#}\nb{% if 1 %}{% endif %}",
              "\n\n  {%- if 1 -%}\n\n a {% endif -%}\n\n b", "{% set x -%}\n  a\n  {%- endset %}\n[{{ x }}]\n", "{% raw %}\n a {% endraw %}\nb", "a{% raw -%}\n b\n  {%- endraw %}\n c"]
EXPRESSIONS += MULTI_LINE
