"""Places where a source can be wrong, found by rules over its tokens.

Nothing here parses C++: clang-format's spacing tells an operator from a pointer or a template bracket, and a place that
does not compile when it is guarded is dropped after the compiler's errors.
"""
import bisect
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)")
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"(?:_\w+|sv|s)?)
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<number>(?:0[xX][0-9a-fA-F']+|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\w*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<op><=>|->\*|<<=|>>=|\.\.\.|::|->|\+\+|--|&&|\|\||[-+*/%&|^!=<>]=|<<|[-+*/%&|^!~=<>?:;,.(){}\[\]\#@\\])
""", re.X | re.S)

PRECEDENCE = {"*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, "<=": 7, ">": 7, ">=": 7, "==": 6,
              "!=": 6, "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1, "?": 0, ":": 0}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
TURNED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
SHIFTED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OTHER_END = {"front": "back", "back": "front", "min": "max", "max": "min", "first": "second", "second": "first",
             "find_first_of": "find_last_of", "lower_bound": "upper_bound", "upper_bound": "lower_bound",
             "min_element": "max_element", "max_element": "min_element"}
STATEMENT_WORDS = {"if", "for", "while", "switch", "return", "case", "throw", "else", "do", "goto", "using", "new",
                   "delete", "typedef", "namespace", "template", "catch", "sizeof", "decltype", "alignas",
                   "static_assert",
                   "operator", "break", "continue", "co_return", "default", "public", "private", "protected", "enum",
                   "struct", "class", "union", "friend", "void", "int", "float", "double", "bool", "constexpr",
                   "static", "extern", "try", "asm", "const", "auto"}
# What these are given is the text of a message.
MESSAGES = {"fail", "runtime_error", "logic_error", "invalid_argument", "Error", "warn", "print", "println"}
OPEN = {"(": ")", "[": "]", "{": "}"}
RULES = ("comparison turned", "off by one", "term dropped", "statement dropped", "arguments swapped", "first for last",
         "flag ignored", "constant changed", "other branch")


@dataclass
class Token:
    kind: str
    text: str
    begin: int
    end: int
    spaced: bool  # white space on both sides: a binary operator, as clang-format writes it
    match: int = -1  # index of the other bracket
    hidden: bool = False  # in a message, a constant expression or code for another machine


@dataclass
class Place:
    """One fault: `pieces` are (begin, end, C++ text with {k} for the mutant's number)."""
    file: str
    rule: str
    line: int
    text: str  # of the line
    before: str
    after: str
    pieces: list
    occurrence: int = 0  # which of the same on lines of the same text

    def span(self):
        return (self.pieces[0][0], self.pieces[-1][1])


def one_line(text):
    return " ".join(text.split())


def conditional_lines(source):
    """Ranges of text between #if and #endif: whether they are compiled depends on the machine."""
    ranges, starts = [], []
    for match in re.finditer(r"^[ \t]*#[ \t]*(ifdef|ifndef|if|endif)\b[^\n]*", source, re.M):
        if match.group(1) == "endif":
            if starts:
                begin = starts.pop()
                ranges.append((begin, match.end()))
        else:
            starts.append(match.start())
    return ranges


def tokenize(source):
    # Directives, with their continued lines, are no tokens.
    blanked = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*", lambda m: re.sub(r"[^\n]", " ", m.group()),
                     source, flags=re.M)
    tokens, position = [], 0
    while position < len(blanked):
        match = TOKEN.match(blanked, position)
        if not match:
            position += 1
            continue
        kind = match.lastgroup if match.lastgroup != "tag" else "raw"
        begin, end = match.span()
        text = match.group()
        if text in (">>", ">=", ">>=") and not blanked[begin - 1].isspace():
            end, text = begin + 1, ">"  # closes template arguments
        position = end
        if kind in ("space", "comment"):
            continue
        spaced = begin > 0 and blanked[begin - 1].isspace() and end < len(blanked) and blanked[end].isspace()
        tokens.append(Token("string" if kind == "raw" else kind, text, begin, end, spaced))
    link_brackets(tokens)
    hide(tokens, conditional_lines(source))
    return tokens


def link_brackets(tokens):
    stack = []
    for index, token in enumerate(tokens):
        if token.kind != "op":
            continue
        if token.text in OPEN:
            stack.append(index)
        elif token.text in OPEN.values():
            while stack and OPEN[tokens[stack[-1]].text] != token.text:
                stack.pop()
            if stack:
                token.match = stack.pop()
                tokens[token.match].match = index
    angles = []
    for index, token in enumerate(tokens):
        if token.text == "<" and not token.spaced:
            angles.append(index)
        elif token.text == ">" and not token.spaced and angles:
            token.match = angles.pop()
            tokens[token.match].match = index
        elif token.text in (";", "{", "}"):
            angles.clear()


def enclosing_brackets(tokens):
    """The innermost open bracket around each token."""
    around, stack = [], []
    for token in tokens:
        if token.kind == "op" and token.text in OPEN.values() and token.match >= 0:
            while stack and stack.pop() != token.match:
                pass
        around.append(tokens[stack[-1]].text if stack else "")
        if token.kind == "op" and token.text in OPEN and token.match >= 0:
            stack.append(len(around) - 1)
    return around


def hide(tokens, conditional):
    begins = [begin for begin, _ in conditional]
    for index, token in enumerate(tokens):
        at = bisect.bisect_right(begins, token.begin)
        if any(begin <= token.begin < end for begin, end in conditional[:at]):
            token.hidden = True
        last = None
        if token.text in MESSAGES and index + 1 < len(tokens) and tokens[index + 1].text in ("(", "{"):
            last = tokens[index + 1].match
        elif token.text in ("constexpr", "static_assert", "enum", "alignas", "template", "using", "case", "operator"):
            last = end_of_constant(tokens, index)
        elif token.text == "<" and token.match > 0:
            last = token.match
        if last is not None and last >= 0:
            for hidden in tokens[index:last + 1]:
                hidden.hidden = True


def end_of_constant(tokens, index):
    """Where a constant expression that starts with this keyword ends: at its semicolon, or before a function's body."""
    word = tokens[index].text
    if word == "template":
        return tokens[index + 1].match if tokens[index + 1].text == "<" else index
    at = index + 1
    while at < len(tokens):
        token = tokens[at]
        if token.text == ";" or (word == "case" and token.text == ":" and token.text != "::"):
            return at
        if token.text == "{" and word in ("constexpr", "operator"):
            before = tokens[at - 1]
            is_function = before.text in ("const", "noexcept", "override") or before.kind != "word"
            if is_function and before.text not in ("=", "]"):
                return at  # a function or `if constexpr`: its body runs
        if token.text in OPEN and token.match > at:
            at = token.match
        at += 1
    return index


def is_operand_word(token):
    return token.kind in ("word", "number", "string", "char")


class Source:
    def __init__(self, file, text):
        self.file, self.text = file, text
        self.tokens = tokenize(text)
        self.enclosing = enclosing_brackets(self.tokens)
        self.line_starts = [0] + [m.end() for m in re.finditer("\n", text)]

    def line_of(self, position):
        return bisect.bisect_right(self.line_starts, position)

    def line_text(self, line):
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.text)
        return self.text[self.line_starts[line - 1]:end].strip()

    def slice(self, first, last):
        return self.text[self.tokens[first].begin:self.tokens[last].end]

    def left_end(self, index, precedence):
        """The first token of the operand that ends before token `index`, or None."""
        at = index - 1
        first = None
        while at >= 0:
            token, right = self.tokens[at], self.tokens[at + 1]
            if token.kind == "op":
                if token.text in (")", "]", "}") or (token.text == ">" and not token.spaced):
                    follows = at + 1 == index or right.text in (".", "->", "(", "[", "::", "{") or right.spaced
                    if token.text != ">" and (not follows or is_operand_word(right)):
                        break
                    if token.match < 0:
                        return None
                    at = token.match
                    if token.text == "}" and not self.is_braced_value(at):
                        break
                elif token.text in OPEN or token.text in (",", ";") or token.text in ASSIGNMENTS:
                    break
                elif token.spaced and token.text in PRECEDENCE and PRECEDENCE[token.text] < precedence:
                    break
                elif token.text in ("?", ":"):
                    break
            elif is_operand_word(token):
                if token.text in STATEMENT_WORDS or (first is not None and is_operand_word(right)):
                    break
            first = at
            at -= 1
        return first

    def is_braced_value(self, brace):
        before = self.tokens[brace - 1]
        return before.kind == "word" and before.text not in STATEMENT_WORDS or before.text == ">"

    def right_end(self, index, precedence):
        """The last token of the operand that starts after token `index`, or None."""
        at = index + 1
        last = None
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "op":
                if token.text in (")", "]", "}", ",", ";", "?", ":") or token.text in ASSIGNMENTS:
                    break
                if token.text == "{" and last is None:
                    return None
                if token.text in OPEN or (token.text == "<" and token.match > 0):
                    if token.match < 0:
                        return None
                    at = token.match
                elif token.spaced and token.text in PRECEDENCE and PRECEDENCE[token.text] <= precedence:
                    break
            last = at
            at += 1
        return last

    def place(self, rule, first, last, after, planted=None):
        """A fault that replaces tokens first to last, an expression, by `after`."""
        tokens = self.tokens
        if first is None or last is None or first > last or any(t.hidden for t in tokens[first:last + 1]):
            return None
        begin, end = tokens[first].begin, tokens[last].end
        before = self.text[begin:end]
        if len(before) > 240 or "//" in before or "/*" in before or re.search(r"\n\s*#", before):
            return None
        after = one_line(after)
        if one_line(before) == after:
            return None
        planted = planted or f"(::binade::fault({{k}}) ? ({after}) : ({before}))"
        return self.made(rule, first, before, after, [(begin, end, planted)])

    def made(self, rule, first, before, after, pieces):
        line = self.line_of(self.tokens[first].begin)
        return Place(self.file, rule, line, self.line_text(line), one_line(before), one_line(after), pieces)


def comparisons(source, index, token):
    if not token.spaced or token.text not in TURNED:
        return
    precedence = PRECEDENCE[token.text]
    first, last = source.left_end(index, precedence), source.right_end(index, precedence)
    if first is None or last is None:
        return
    left, right = source.slice(first, index - 1), source.slice(index + 1, last)
    yield source.place("comparison turned", first, last, f"{left} {TURNED[token.text]} {right}")
    if token.text in SHIFTED:
        yield source.place("off by one", first, last, f"{left} {SHIFTED[token.text]} {right}")


def terms(source, index, token):
    if not token.spaced or token.text not in ("+", "-", "*", "/", "%", "&&", "||"):
        return
    precedence = PRECEDENCE[token.text]
    first, last = source.left_end(index, precedence), source.right_end(index, precedence)
    if first is None or last is None or first > index - 1:
        return
    left, right = source.slice(first, index - 1), source.slice(index + 1, last)
    if re.search(r'"[^"]* [^"]*"', left + right) or "[&]" in left + right:
        return
    if right == "1" and token.text in "+-":
        yield source.place("off by one", first, last, left)
        return
    yield source.place("term dropped", first, last, left)
    if token.text in ("+", "*", "&&", "||"):
        yield source.place("term dropped", first, last, right)


def statements(source, index, token):
    """An assignment or a call whose result nobody uses is left out."""
    tokens = source.tokens
    if token.kind != "word" or token.text in STATEMENT_WORDS or token.text in MESSAGES or index == 0:
        return
    before = tokens[index - 1]
    if before.text not in (";", "{", "}", ")", "else") or source.enclosing[index] not in ("{", ""):
        return
    at = index
    while at < len(tokens) - 1:  # a chain of names, members and subscripts
        if tokens[at].kind == "word" and tokens[at + 1].text in (".", "->", "::"):
            at += 2
        elif tokens[at].kind == "word" and tokens[at + 1].text == "[":
            at = tokens[at + 1].match + 1
            if tokens[at].text in (".", "->"):
                at += 1
            else:
                at -= 1
                break
        else:
            break
    if at <= 0 or at + 1 >= len(tokens) or tokens[at].kind != "word" and tokens[at].text != "]":
        return
    follows = tokens[at + 1]
    if not (follows.text == "(" or (follows.text in ASSIGNMENTS and follows.spaced)):
        return
    if any(t.text in MESSAGES for t in tokens[index:at + 1]):
        return
    end = at + 1
    while end < len(tokens) and tokens[end].text != ";":
        if tokens[end].text in ("}", ")", "]"):
            return
        end = tokens[end].match + 1 if tokens[end].text in OPEN else end + 1
        if end <= 0:
            return
    if end >= len(tokens):
        return
    planted = "{ if (!::binade::fault({k})) " + source.slice(index, end) + " }"
    yield source.place("statement dropped", index, end, "", planted)


SIMPLE = re.compile(r"-?[\w:]+(?:(?:\.|->)\w+|\[\w+\]|\(\))*$")


def arguments(source, open_index):
    """(first, last) tokens of each argument of a call."""
    tokens = source.tokens
    parts, first, at = [], open_index + 1, open_index + 1
    while at <= tokens[open_index].match:
        if at == tokens[open_index].match or tokens[at].text == ",":
            if at > first:
                parts.append((first, at - 1))
            first = at + 1
        elif tokens[at].text in OPEN or (tokens[at].text == "<" and tokens[at].match > 0):
            at = tokens[at].match
        at += 1
    return parts


def swaps(source, index, token):
    tokens = source.tokens
    if token.text != "(" or index == 0 or token.match < 0 or tokens[index - 1].kind != "word" or token.hidden:
        return
    callee = tokens[index - 1].text
    if callee in STATEMENT_WORDS or callee in MESSAGES or callee in ("min", "max", "static_cast", "move"):
        return
    parts = arguments(source, index)
    for (a, b), (c, d) in zip(parts, parts[1:]):
        one, two = source.slice(a, b), source.slice(c, d)
        if one == two or not SIMPLE.match(one) or not SIMPLE.match(two) or any(t.hidden for t in tokens[a:d + 1]):
            continue
        if "nullptr" in (one, two) or two == one.replace("begin()", "end()") or {one, two} == {"true", "false"}:
            continue
        pieces = [(tokens[a].begin, tokens[b].end, f"::binade::fault_pick(::binade::fault({{k}}), {one}, {two})"),
                  (tokens[c].begin, tokens[d].end, f"::binade::fault_pick(::binade::fault({{k}}), {two}, {one})")]
        name = callee + "("
        yield source.made("arguments swapped", a, f"{name}.. {one}, {two} ..)", f"{name}.. {two}, {one} ..)", pieces)


def other_ends(source, index, token):
    if token.kind != "word" or token.text not in OTHER_END or index == 0:
        return
    tokens = source.tokens
    called = tokens[index + 1].text in ("(", "<")
    before = tokens[index - 1].text
    if token.text in ("first", "second"):
        if called or before not in (".", "->") or tokens[index + 1].text in ASSIGNMENTS:
            return
        last = index
    else:
        if not called or before not in (".", "->", "::"):
            return
        last = index + 1
        if tokens[last].text == "<":
            last = tokens[last].match + 1
        if last <= 0 or tokens[last].text != "(":
            return
        last = tokens[last].match
    first = source.left_end(index + 1, 11)
    if first is None or last < 0:
        return
    text = source.text
    after = (text[tokens[first].begin:token.begin] + OTHER_END[token.text] + text[token.end:tokens[last].end])
    # A prefix operator applies to the result of either.
    yield source.place("first for last", first, last, after)


def flags(source, index, token):
    tokens = source.tokens
    if token.text in ("true", "false") and token.kind == "word" and tokens[index - 1].text in ("(", ",", "=", "return"):
        yield source.place("flag ignored", index, index, "false" if token.text == "true" else "true")
    if token.text != "if" or tokens[index + 1].text != "(" or tokens[index + 1].match < 0:
        return
    first, last = index + 2, tokens[index + 1].match - 1
    inside = [t.text for t in tokens[first:last + 1]]
    if any(t in ASSIGNMENTS or t in (";", "{") for t in inside):
        return
    if any(t.text in TURNED and t.spaced for t in tokens[first:last + 1]):
        return  # the rules of comparisons and terms have it
    condition = source.slice(first, last)
    for value in ("false", "true"):
        yield source.place("flag ignored", first, last, value,
                           f"(::binade::fault({{k}}) ? {value} : static_cast<bool>({condition}))")


def constants(source, index, token):
    if token.kind != "number" or token.hidden:
        return
    text = token.text
    match = re.fullmatch(r"(\d[\d']*)([uUlLzZ]*)", text)
    if match and not (text.startswith("0") and len(match.group(1)) > 1):
        value = int(match.group(1).replace("'", ""))
        for other in {value + 1, value - 1 if value > 1 else value + 1}:
            yield source.place("constant changed", index, index, f"{other}{match.group(2)}")
        return
    match = re.fullmatch(r"((?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([fF]?)", text)
    if match:
        value = float(match.group(1).replace("'", ""))
        after = f"{(value * 2 if value else 1.0)!r}"
        yield source.place("constant changed", index, index, after + match.group(2))


def branches(source, index, token):
    if token.text != "?" or token.kind != "op":
        return
    first = source.left_end(index, 1)
    if first is None:
        return
    condition = source.slice(first, index - 1)
    place = source.place("other branch", first, index - 1, f"!({condition})",
                         f"(::binade::fault({{k}}) != static_cast<bool>({condition}))")
    yield place


FINDERS = (comparisons, terms, statements, swaps, other_ends, flags, constants, branches)


def places(file, text):
    source = Source(file, text)
    found = []
    for index, token in enumerate(source.tokens):
        if token.hidden or index == 0 or index + 1 >= len(source.tokens):
            continue
        for finder in FINDERS:
            found += [place for place in finder(source, index, token) if place]
    seen = {}
    for place in found:
        same = (place.rule, place.text, place.before, place.after)
        place.occurrence = seen.get(same, 0)
        seen[same] = place.occurrence + 1
    return found
