"""Writes the type stubs of the extension module.

    make_stubs.py FOLDER PATTERNS OUTPUT

They are nanobind's, but for names that members of Tensor hide inside its class (a parameter of type
int there would be of the type of the method Tensor.int), and for the in-place forms of ops, which
have the parameters of the ops.
"""

import re
import subprocess
import sys

HIDDEN = ("int", "float", "bool", "dtype", "device")
ALIASES = """
from builtins import bool as _bool, float as _float, int as _int

__version__: str
"""
CLASS_ALIASES = """
_dtype = dtype
_device = device
"""
NAME = re.compile(rf"\b({'|'.join(HIDDEN)})\b")
PARAMETER_TYPE = re.compile(NAME.pattern + r"(?!\s*[:(])")


def renamed(definition):
    """A line of the class with its types spelled by their aliases."""
    parameters, arrow, result = definition.partition(" -> ")
    return PARAMETER_TYPE.sub(r"_\1", parameters) + arrow + NAME.sub(r"_\1", result)


def with_aliases(text):
    lines, in_tensor = [], False
    for line in text.splitlines():
        if line and not line[0].isspace():
            in_tensor = line.startswith("class Tensor:")
        is_definition = in_tensor and line.lstrip().startswith("def ")
        lines.append(renamed(line) if is_definition else line)
    text = "\n".join(lines) + "\n"
    text = text.replace("\nclass Tensor:", CLASS_ALIASES + "\nclass Tensor:", 1)
    first_import = re.search(r"^(from|import) ", text, re.M).start()
    return text[:first_import] + ALIASES.lstrip() + text[first_import:]


def with_in_place_forms(text, ops):
    """The class with x.exp_() for each op that has such a form: the overloads of x.exp()."""
    lines = []
    for line in text.splitlines():
        lines.append(line)
        method = re.match(r"    def (\w+)(\(self.*\)) -> Tensor:", line)
        if method and method[1] in ops:
            overloads = ops[method[1]]
            overloads.append(f"    def {method[1]}_{method[2]} -> Tensor: ...")
    forms = []
    for overloads in ops.values():
        for form in overloads:
            forms += ["    @overload"] * (len(overloads) > 1) + [form, ""]
    at = lines.index(next(line for line in lines if line.startswith("class Tensor:"))) + 1
    while at < len(lines) and not (lines[at] and not lines[at][0].isspace()):
        at += 1
    return "\n".join(lines[:at] + forms + lines[at:]) + "\n"


def in_place_ops(folder):
    sys.path.insert(0, folder)
    import _binade
    return {name: [] for name in _binade._in_place_ops}


def main(folder, patterns, output):
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-P", "-i", folder, "-m", "_binade",
                    "-p", patterns, "-o", output], check=True)
    with open(output) as file:
        text = file.read()
    with open(output, "w") as file:
        file.write(with_aliases(with_in_place_forms(text, in_place_ops(folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
