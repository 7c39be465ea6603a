"""Expressions of semantics/expressions.txt give what PyTorch or NumPy give: equal values, dtypes and
shapes, or a refusal of both.

What PyTorch gave is in semantics/recorded.jsonl; where PyTorch is installed the file is compared with
it. `python test_semantics.py` writes it anew, with PyTorch."""

import json
import math
import pathlib
import re
import warnings

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parent / "semantics"
RECORDED = FOLDER / "recorded.jsonl"
NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
         "int32": "i32", "uint8": "u8", "bool": "bool"}


def sections():
    """(section, expression, whether Binade refuses) of each line."""
    section = None
    for line in (FOLDER / "expressions.txt").read_text().splitlines():
        if re.fullmatch(r"\[[a-z ]+\]", line):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            yield section, line.lstrip("!").split("  # ")[0].strip(), line.startswith("!")


def arrays():
    """The variables: values without ties, with both signs."""
    steps = np.arange(12)
    x = ((steps * 7 % 12) - 5.25).reshape(3, 4)
    y = ((steps * 5 % 12) - 6.75).reshape(3, 4)
    return {
        "x": x.astype(np.float32), "y": y.astype(np.float32), "d": (x * 0.5 + 0.1),
        "v": np.array([0.5, -1.5, 2.0, 3.25], np.float32), "w": np.array([1.0, -2.0, 0.25], np.float32),
        "s": np.array(2.5, np.float32), "c": (np.arange(24) * 11 % 24 - 9.5).astype(np.float32)
        .reshape(2, 3, 4), "h": x.astype(np.float16), "i": (steps * 5 % 7).reshape(3, 4),
        "n": (steps * 3 % 5).astype(np.int32).reshape(3, 4), "u": steps.astype(np.uint8).reshape(3, 4),
        "k": np.array([2, 0, 1]), "j": np.array([3, 1, 0, 2]), "b": (steps % 3 == 0).reshape(3, 4),
        "m": np.array([True, False, True])}


def variables(library):
    """What an expression may name; `a` is a NumPy array everywhere."""
    values = arrays()
    if library is not None:
        values = {name: library.tensor(array) for name, array in values.items()}
        values["q"] = values["x"].to(library.bfloat16)
        values["torch"] = library
    return {**values, "a": arrays()["y"] + 20, "np": np}


def plain(value):
    """A result in terms that libraries share."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        dtype = str(value.dtype).split(".")[-1]
        if hasattr(value, "detach"):
            value = value.detach()
            value = np.asarray(value.float() if dtype in ("bfloat16", "bf16") else value)
        values = np.asarray(value, np.float64).ravel().tolist()
        return {"dtype": NAMES.get(dtype, dtype), "shape": list(value.shape),
                "values": [plain(v) for v in values]}
    if hasattr(value, "values") and hasattr(value, "indices"):
        return [plain(value.values), plain(value.indices)]
    return [plain(item) for item in value]


def evaluated(expression, library):
    *statements, last = expression.split("; ")
    scope = variables(library)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for statement in statements:
            exec(statement, scope)
        return plain(eval(last, scope))


def outcome(expression, library):
    """The result, or the name of the exception."""
    try:
        return evaluated(expression, library)
    except Exception as error:
        return {"refused": type(error).__name__}


def is_near(found, expected):
    """Equal but for the last bits of f32; -1e-6 is what torch's f32 sums leave of 0."""
    if isinstance(found, float) and isinstance(expected, (float, int)):
        return math.isclose(found, expected, rel_tol=4e-6, abs_tol=1e-6)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_near, found, expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(is_near(v, expected[k]) for k, v in found.items())
    return found == expected and type(found) is type(expected)


def recorded():
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return {line["expression"]: line["result"] for line in lines}


@pytest.fixture(scope="module")
def results():
    return recorded()


@pytest.mark.parametrize("section, expression, refuses", list(sections()),
                         ids=[f"{s}: {e}" for s, e, _ in sections()])
def test_an_expression_means_the_same(section, expression, refuses, results):
    import binade
    expected = outcome(expression, None) if section == "numpy" else results[expression]
    found = outcome(expression, binade)
    is_refusal = isinstance(found, dict) and "refused" in found
    if refuses:
        assert is_refusal and "refused" not in expected
    elif isinstance(expected, dict) and "refused" in expected:
        assert is_refusal, f"expected {expected}, found {found}"
        # A method that is missing is no refusal of its arguments.
        assert (found["refused"] == "AttributeError") == (expected["refused"] == "AttributeError")
    else:
        assert is_near(found, expected), f"expected {expected}, found {found}"


def test_the_table_is_large():
    expressions = list(sections())
    assert len(expressions) >= 400 and len(set(expressions)) == len(expressions)
    assert sum(refuses for _, _, refuses in expressions) <= 10


def test_recorded_results_are_pytorchs(results):
    torch = pytest.importorskip("torch")
    wrong = [e for s, e, _ in sections() if s != "numpy" and not is_near(outcome(e, torch), results[e])]
    assert not wrong


def record():
    import torch
    lines = [json.dumps({"expression": e, "result": outcome(e, torch)})
             for e in dict.fromkeys(e for s, e, _ in sections() if s != "numpy")]
    RECORDED.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    record()
