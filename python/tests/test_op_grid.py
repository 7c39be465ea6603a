"""The ops made of others over types, empty tensors, NaN and infinities: PyTorch's values and types.

What PyTorch gave is in semantics/op_grid.jsonl, a line for each op, type and kind of values.
`python test_op_grid.py` writes it anew, with PyTorch; where PyTorch is installed the file is compared
with it."""

import json
import math

import numpy as np
import pytest

from test_semantics import FOLDER, plain

RECORDED = FOLDER / "op_grid.jsonl"
TYPES = ["float32", "float64", "float16", "bfloat16", "int64", "bool"]
# Rounding of a type, twice: libraries round between steps of a formula elsewhere.
UNITS = {"f32": 2.0**-22, "f64": 2.0**-50, "f16": 2.0**-9, "bf16": 2.0**-6}
F = "torch.nn.functional."
# `x` and `y` have the values of a kind; `v` is the first row, or nothing; `k` are indices.
OPS = [
    "torch.lerp(x, y, 0.25)", "torch.lerp(x, y, 0.8)", "torch.lerp(x, y, x)", "torch.fmod(x, y)",
    "torch.fmod(x, 2)", "torch.fmod(x, -1.5)", "torch.frac(x)", "torch.logical_xor(x, y)",
    "torch.nan_to_num(x)", "torch.nan_to_num(x, 1.0, 2.0, -3.0)", "torch.isclose(x, y)",
    "torch.isclose(x, x, equal_nan=True)", "torch.isclose(x, y, 0.5, 0.25)", "torch.selu(x)",
    F + "hardtanh(x)", F + "hardtanh(x, -2.0, 0.5)", F + "relu6(x)", F + "logsigmoid(x)",
    F + "softsign(x)", F + "normalize(x)", F + "normalize(x, p=1.0, dim=0)", "torch.diag(v)",
    "torch.diag(v, -1)", "torch.diag(x, 1)", "torch.diagonal(x)", "x.diagonal(-1)", "torch.trace(x)",
    "torch.outer(v, v)", "torch.meshgrid(v, v, indexing='xy')", "torch.hstack([x, y])",
    "torch.vstack([x, v])", "torch.tile(x, (2, 1, 2))", "torch.repeat_interleave(x, 2)",
    "torch.repeat_interleave(x, 3, 0)", "torch.repeat_interleave(x, k, 1)", "torch.movedim(x, 0, 1)",
    "torch.index_add(x, 1, k, y)", "torch.index_add(x, 1, k, y, alpha=2)",
    "torch.index_fill(x, 1, k[:2], 1)", "x.scatter(1, k[:3].reshape(1, 3), 1)",
    "torch.count_nonzero(x)", "torch.count_nonzero(x, dim=0)", "torch.var_mean(x)",
    "torch.std_mean(x, dim=1)", "torch.std_mean(x, dim=1, correction=0, keepdim=True)",
    "torch.unique(x)", "torch.unique(x, return_inverse=True, return_counts=True)",
    "torch.unique_consecutive(v, return_counts=True)", "torch.bincount(v)",
    "torch.searchsorted(x.sort(1).values, y)", "torch.searchsorted(x.sort(1).values, y, right=True)",
    "torch.median(x)", "torch.median(x, 1)", "torch.quantile(x, 0.3)",
    "torch.quantile(x, 0.6, dim=1, keepdim=True)", "torch.quantile(x, q, dim=1)",
    "torch.take(x, k[:1])",
]
# Where Binade refuses what PyTorch computes: a part of the op, types, kinds, and why.
FLOATS, KINDS = TYPES[:4], ("numbers", "edges", "empty")
REFUSED = [
    ("fmod(x, 2)", ["bool"], KINDS, "truth values have no remainder"),
    ("fmod(x, -1.5)", ["bool"], KINDS, "truth values have no remainder"),
    ("var_mean(x)", FLOATS, ["empty"], "var() of no element, as everywhere; PyTorch gives NaN"),
]
# Where both compute, or Binade alone, and Binade means something else.
DIFFERS = [
    ("lerp", ["int64"], KINDS, "promoted to f32; PyTorch refuses integers"),
    ("frac", ["int64"], KINDS, "0; PyTorch refuses integers"),
    ("trace", ["bool"], KINDS, "a count; PyTorch has no trace of bools"),
    ("bincount", ["bool"], KINDS, "false is 0 and true is 1; PyTorch refuses bools"),
    ("searchsorted", ["bool"], KINDS, "false is before true; PyTorch refuses bools"),
    ("searchsorted", FLOATS, ["edges"], "NaN in a line is after infinity and beside NaN, as in NumPy"),
    ("median", ["bool"], KINDS, "false is before true; PyTorch refuses bools"),
    ("median(x)", ["int64"], ["empty"], "0; PyTorch gives the smallest integer"),
    ("quantile", FLOATS[:2], ["empty"], "of no lines there is nothing to refuse"),
]


def values(kind):
    """x and y: numbers without ties, or with NaN, infinities, zeros and ties, or none."""
    steps = np.arange(12)
    if kind == "numbers":
        return ((steps * 7 % 12) - 5.25).reshape(3, 4), ((steps * 5 % 12) - 6.75).reshape(3, 4)
    if kind == "empty":
        return np.zeros((0, 4)), np.zeros((0, 4))
    nan, inf = math.nan, math.inf
    x = np.array([[nan, inf, -inf, 2.5], [-0.0, 2.5, 0.0, inf], [-3.0, 1.0, 1.0, 70.25]])
    y = np.array([[1.0, inf, 2.0, nan], [2.5, 2.5, -inf, -inf], [0.75, 1.0, -1.0, 70.0]])
    return x, y


def as_type(library, array, dtype):
    if dtype in ("int64", "bool"):
        array = np.nan_to_num(array, nan=0.0, posinf=9.0, neginf=-9.0)
        array = array.astype(np.int64) if dtype == "int64" else np.abs(array) > 2
    return library.tensor(array).to(getattr(library, dtype))


def scope(library, dtype, kind):
    x, y = (as_type(library, array, dtype) for array in values(kind))
    q = library.tensor([0.1, 0.75]).to(library.float64 if dtype == "float64" else library.float32)
    v = x[0] if kind != "empty" else x.reshape(-1)
    if dtype == "int64":
        v = v.abs()
    return {"torch": library, "x": x, "y": y, "v": v, "q": q, "k": library.tensor([2, 0, 1, 3])}


def outcome(op, dtype, kind, library):
    try:
        return plain(eval(op, scope(library, dtype, kind)))
    except Exception as error:
        return {"refused": type(error).__name__}


def cases():
    return [(op, dtype, kind) for op in OPS for dtype in TYPES for kind in KINDS
            if not (kind == "edges" and dtype == "bool")]


def number(value):
    return float(value) if isinstance(value, str) else value


def is_near(found, expected, unit):
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(
            is_near(a, b, unit) for a, b in zip(found, expected))
    if isinstance(expected, dict):
        if found.keys() != expected.keys():
            return False
        unit = UNITS.get(expected.get("dtype"), 0)
        return all(is_near(found[key], expected[key], unit) for key in expected)
    if isinstance(expected, str) and expected not in ("nan", "inf", "-inf"):
        return found == expected
    a, b = number(found), number(expected)
    return a == b or (a != a and b != b) or abs(a - b) <= unit * (abs(b) + 1)


def listed(rows, op, dtype, kind):
    return any(part in op and dtype in types and kind in kinds for part, types, kinds, _ in rows)


def recorded():
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return {(line["op"], line["dtype"], line["kind"]): line["result"] for line in lines}


@pytest.fixture(scope="module")
def results():
    return recorded()


@pytest.mark.parametrize("op, dtype, kind", cases(), ids=[" ".join(case) for case in cases()])
def test_an_op_gives_what_pytorch_gives(op, dtype, kind, results):
    import binade
    expected, found = results[op, dtype, kind], outcome(op, dtype, kind, binade)
    is_refusal = isinstance(found, dict) and "refused" in found
    if isinstance(expected, dict) and "refused" in expected:
        assert is_refusal or listed(DIFFERS, op, dtype, kind), found
    elif listed(REFUSED, op, dtype, kind):
        assert is_refusal and found["refused"] != "AttributeError", found
    elif not listed(DIFFERS, op, dtype, kind):
        assert is_near(found, expected, 0), f"expected {expected}, found {found}"


def test_the_grid_can_tell_right_from_wrong(results):
    computed = [case for case in cases() if "refused" not in (results[case] or {})]
    assert len(computed) > 600
    for library_type in TYPES:
        assert sum(dtype == library_type for _, dtype, _ in computed) > 60


def test_recorded_results_are_pytorchs(results):
    torch = pytest.importorskip("torch")
    wrong = [case for case in cases() if not is_near(outcome(*case, torch), results[case], 0)]
    assert not wrong


def record():
    import torch
    lines = [json.dumps({"op": op, "dtype": dtype, "kind": kind, "result": outcome(op, dtype, kind, torch)})
             for op, dtype, kind in cases()]
    RECORDED.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    record()
