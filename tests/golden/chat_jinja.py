"""Makes chat/jinja.json: templates of our own that use what published ones use, rendered by transformers,
and small expressions, rendered by jinja2 in transformers' environment."""

import datetime
import json
import pathlib

import jinja2
import transformers
from transformers.utils import chat_template_utils

from chat_jinja_expressions import EXPRESSIONS
from chat_jinja_templates import TEMPLATES

HERE = pathlib.Path(__file__).resolve().parent
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 3, 9, 8, 5, 7)


chat_template_utils.datetime = Today

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a \"city\" \u2014 today & tomorrow.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Its name"},
            "days": {"type": "integer", "enum": [1, 2]},
            "scale": {"type": "number", "default": 1.5}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {
        "type": "object", "properties": {}}}},
]


def u(content):
    return {"role": "user", "content": content}


def a(content, **more):
    return {"role": "assistant", "content": content, **more}


def s(content):
    return {"role": "system", "content": content}


CALL = {"id": "call12345", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": 2, "now": True, "x": None}}}
TEXT_CALL = {"id": "call67890", "type": "function", "function": {"name": "noop", "arguments": "{}"}}
CONVERSATIONS = {
    "one turn": {"messages": [u("  What is 7 * 8?\n"), a("\n56. Easy \u2014 na\u00efve.  ")]},
    "question": {"messages": [u("Hi")]},
    "three turns": {"messages": [u("a"), a("b"), u("\u4e2d\u6587 \U0001f600"), a("d <|im_end|>"), u("e\r\nf"), a("g")]},
    "system": {"messages": [s(" Be brief.\n"), u("Hi"), a("Hello"), u("Bye"), a("See you")]},
    "system alone": {"messages": [s("x"), u("y")]},
    "late system": {"messages": [u("x"), s("y"), u("z"), a("w")]},
    "empty": {"messages": [u(""), a("")]},
    "none": {"messages": [u("x"), a(None)]},
    "no content": {"messages": [u("x"), {"role": "assistant"}]},
    "list content": {"messages": [u([{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "at it"}]),
                                  a([{"type": "text", "text": "I see"}])]},
    "two users": {"messages": [u("x"), u("y"), a("z")]},
    "assistant first": {"messages": [a("x"), u("y"), a("z")]},
    "other role": {"messages": [u("x"), {"role": "critic", "content": "y"}, a("z")]},
    "reasoning": {"messages": [u("x"), a("<think>\nhm\n</think>\n\nyes"), u("y"), a("no", reasoning_content="so and so")]},
    "thinking": {"messages": [u("x"), a("no", thinking="so\n")]},
    "space": {"messages": [u("\u2003padded\u00a0\t"), a("\n\n two\n\nlines \x1f")]},
    "tools": {"messages": [u("Weather?")], "tools": TOOLS},
    "tool calls": {"messages": [s("Use tools."), u("Weather?"), a(None, tool_calls=[CALL]),
                                {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "{\"rain\": 0.5}"},
                                a("Dry."), u("And?"), a("", tool_calls=[CALL, TEXT_CALL]),
                                {"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}, a("ok")], "tools": TOOLS},
    "no messages": {"messages": []},
}


def render(template, given, prompt):
    """The text and the spans of generation blocks, or None if the template refuses."""
    try:
        texts, spans = chat_template_utils.render_jinja_template(
            [given["messages"]], tools=given.get("tools"), chat_template=template, add_generation_prompt=prompt,
            return_assistant_tokens_mask="generation %}" in template, **SPECIAL)
    except Exception as error:  # noqa: BLE001 - whatever it is, the template does not take the conversation
        return {"error": type(error).__name__}
    made = {"text": texts[0]}
    if spans:
        made["generated"] = [list(span) for span in spans[0]]
    return made


def main():
    cases = []
    for name, template in TEMPLATES.items():
        for title, given in CONVERSATIONS.items():
            for prompt in (False, True):
                cases.append({"template": name, "conversation": title, "prompt": prompt, **render(template, given, prompt)})
    compiled = chat_template_utils._cached_compile_jinja_template
    grid = []
    variables = {"n": 3, "x": 2.5, "t": "Hello, W\u00f6rld", "l": [3, 1, 2], "words": ["b", "A", "c", "a"],
                 "d": {"b": 1, "a": [1, {"k": None}], "C": "\u00e9\n\"q\""}, "e": "", "z": None, "yes": True,
                 "people": [{"name": "Bo", "age": 3, "tags": ["x"]}, {"name": "al", "age": 1}, {"name": "Cy", "age": 2, "ok": True}],
                 "padded": " \t two  words\u2003\n"}
    for expression in EXPRESSIONS:
        source = expression if "{%" in expression else "{{ " + expression + " }}"
        try:
            text = compiled(source).render(**variables)
            if " at 0x" not in text:  # addresses
                grid.append({"source": source, "text": text})
        except Exception as error:  # noqa: BLE001
            grid.append({"source": source, "error": type(error).__name__})
    (HERE / "chat" / "jinja.json").write_text(json.dumps(
        {"oracle": f"transformers {transformers.__version__}, jinja2 {jinja2.__version__}", "special": SPECIAL,
         "templates": TEMPLATES, "conversations": CONVERSATIONS, "cases": cases, "variables": variables, "grid": grid},
        separators=(",", ":"), sort_keys=False) + "\n")
    refused = sum("error" in one for one in cases), sum("error" in one for one in grid)
    print(len(cases), "cases,", len(grid), "expressions, of which refused:", *refused)


if __name__ == "__main__":
    main()
