"""Makes autocast_dtypes.json: the output type of each op under PyTorch's autocast.

No GPU is needed: fake tensors on the device "cuda" carry no data but go through PyTorch's own
dispatcher, and so through the registered CUDA autocast kernels. The CPU's lists are recorded
beside them, with real tensors.
"""

import contextlib
import logging
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from autocast_ops import CLASSES
from golden_common import HERE, compact

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
LOW = ("f16", "bf16")
# Types of the inputs in turn; the last one repeats.
UNIFORM = [["f32"], ["f16"], ["bf16"], ["f64"]]
MIXED = [["f32", "f16"], ["f16", "f32"], ["f32", "bf16"], ["bf16", "f32"], ["f16", "bf16"]]
NAMED = ("f32", "f16", "bf16", "f64")


class Make:
    """Gives tensors of the listed types in turn."""

    def __init__(self, device, dtypes):
        self.device, self.dtypes, self.count = device, dtypes, 0

    def __call__(self, *shape):
        dtype = self.dtypes[min(self.count, len(self.dtypes) - 1)]
        self.count += 1
        return torch.full(shape, 0.5, dtype=DTYPES[dtype], device=self.device)

    def f32(self, *shape):
        return torch.full(shape, 0.5, device=self.device)


@contextlib.contextmanager
def autocast(device, dtype):
    """torch.autocast without its test for a present GPU, which turns it off."""
    torch.set_autocast_dtype(device, DTYPES[dtype])
    torch.set_autocast_enabled(device, True)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()
        torch.set_autocast_enabled(device, False)


def outcome(device, function, dtypes, low, **named):
    """The name of the output's type, or "error" where the call raises."""
    try:
        with autocast(device, low):
            result = function(Make(device, dtypes), **named)
    except (RuntimeError, ValueError, NotImplementedError):
        return "error"
    result = result[0] if isinstance(result, tuple) else result
    return NAMES[result.dtype]


def rows(device, op_class, function):
    """One row per autocast type and input types: [autocast, inputs, output]."""
    counter = Make(device, ["f32"])
    function(counter)
    mixes = counter.count > 1 and op_class in ("lower", "promote", "as_is")
    inputs = UNIFORM + (MIXED if mixes else [])
    return [
        [low, dtypes, outcome(device, function, dtypes, low)] for low in LOW for dtypes in inputs
    ]


def named_rows(device, function):
    """One row where the caller names a dtype: [autocast, input, named, output]."""
    return [
        [low, given, name, outcome(device, function, [given], low, dtype=DTYPES[name])]
        for low in LOW
        for given in ("f32", "f16", "bf16")
        for name in NAMED
    ]


def record(device):
    ops = []
    for op_class, table in CLASSES.items():
        for name, function in table.items():
            entry = {"op": name, "class": op_class, "rows": rows(device, op_class, function)}
            if op_class == "f32_unless_named":
                entry["named"] = named_rows(device, function)
            ops.append(entry)
    return ops


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)  # fake tensors log each call that raises
    with FakeTensorMode():
        cuda = record("cuda")
    out = {"oracle": f"torch {torch.__version__}", "cuda": cuda, "cpu": record("cpu")}
    text = compact(out).replace('{"class"', '\n{"class"') + "\n"
    (HERE / "autocast_dtypes.json").write_text(text)
    print(f"autocast_dtypes.json: {len(cuda)} ops, {len(text)} bytes")


if __name__ == "__main__":
    main()
