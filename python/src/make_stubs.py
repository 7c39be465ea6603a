"""Writes the type stubs of the extension module.

    make_stubs.py FOLDER PATTERNS OUTPUT

They are nanobind's, but for names that members of Tensor hide inside its class: a parameter of type
int there would be of the type of the method Tensor.int.
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


def main(folder, patterns, output):
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-P", "-i", folder, "-m", "_binade",
                    "-p", patterns, "-o", output], check=True)
    with open(output) as file:
        text = file.read()
    with open(output, "w") as file:
        file.write(with_aliases(text))


if __name__ == "__main__":
    main(*sys.argv[1:])
