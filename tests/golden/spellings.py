"""Writes tests/from_libtorch/spellings.inc: first spellings of a LibTorch user and the values of PyTorch.

Each row of spellings_tensors.py and spellings_training.py has C++ text, as a program for LibTorch would have it, and the
same in Python, whose value is recorded. Statements end in ";"; what comes last is the value. A row of OTHER is not
compiled: docs/from-libtorch.md says what to write instead.
"""

import io
import pathlib
import sys
import tempfile

import torch
from torch import nn
import torch.nn.functional as F

import spellings_other
import spellings_second
import spellings_tensors
import spellings_training
import spellings_unseen


def fixture():
    x = torch.tensor([[0.5, -1.25, 2.0], [3.5, -0.75, 1.0]])
    y = torch.tensor([[0.5, 4.0, -1.5], [-2.0, 0.25, 3.0]])
    return dict(
        torch=torch, nn=nn, F=F, x=x, y=y, w=x.clone() * 0.5 + 1, A=torch.tensor([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]]),
        v=torch.tensor([1.5, -0.5, 4.0]), i=torch.tensor([2, 0, 1]), q=torch.tensor([3, 1, 4, 1]),
        m=torch.tensor([[True, False, False], [False, True, True]]),
        logits=torch.tensor([[1.0, -0.5, 0.25], [0.0, 2.0, -1.0], [0.5, 0.5, 1.5], [-2.0, 1.0, 0.75]]),
        labels=torch.tensor([2, 0, 1, 1]),
        img=((torch.arange(384) * 37 % 101).float() / 50 - 1).view(2, 3, 8, 8),
        kernel=((torch.arange(108) * 23 % 47).float() / 23 - 1).view(4, 3, 3, 3),
        ramp=ramp, optimized=optimized, scheduled=scheduled)


def ramp(module):
    """Parameters that no random numbers decide."""
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(((torch.arange(p.numel()) * 7 % 11).float() / 8 - 0.5).view_as(p))
    return module


def optimized(kind, **options):
    """w after one step with the gradient x."""
    given = fixture()
    w = given["w"].requires_grad_()
    optimizer = kind([w], **options)
    (w * given["x"]).sum().backward()
    optimizer.step()
    return w


def scheduled(make, steps):
    """The rate, first 1, after some steps."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.5)
    scheduler = make(optimizer)
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
    return optimizer.param_groups[0]["lr"]


TYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
         torch.int32: "i32", torch.uint8: "u8", torch.bool: "bool"}


def shown(value):
    """A type and shape with the values, or a number; the test writes the same."""
    if isinstance(value, torch.Tensor):
        numbers = value.detach().double().flatten().tolist()
        sizes = ", ".join(str(s) for s in value.shape)
        return f"{TYPES[value.dtype]} [{sizes}]" + "".join(f" {number(n)}" for n in numbers)
    if isinstance(value, (tuple, list, torch.Size)):
        return "[" + ", ".join(str(int(s)) for s in value) + "]"
    return value if isinstance(value, str) else number(float(value))


def number(value):
    return f"{value:.9g}"


def evaluate(python):
    scope = fixture()
    *setup, last = python.split("; ")
    for statement in setup:
        exec(statement, scope)
    return shown(eval(last, scope))


def split(cpp):
    """Statements and the value: the text after the last ; or } outside of braces."""
    depth, cut = 0, 0
    for at, c in enumerate(cpp):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(c, 0)
        after = cpp[at + 1:].lstrip()
        ends_block = c == "}" and cpp[at + 1:at + 2] == " " and after[:1].isalpha() and not after.startswith("catch")
        if depth == 0 and (c == ";" or ends_block):
            cut = at + 1
    return cpp[:cut].strip(), cpp[cut:].strip()


def write(path, groups):
    out = io.StringIO()
    out.write("// Written by tests/golden/spellings.py with PyTorch " + torch.__version__.split("+")[0] + ". OTHER(text)\n"
              "// or SPELLING(text, value of PyTorch, C++): statements that return the value.\n")
    for group, rows in groups.items():
        out.write(f"// {group}\n")
        for cpp, python in rows:
            text = cpp.replace("\\", "\\\\").replace('"', '\\"')
            if cpp in spellings_other.ROWS:
                out.write(f'OTHER("{text}")\n')
                continue
            expected = evaluate(python).replace('"', '\\"')
            setup, value = split(cpp)
            out.write(f'SPELLING("{text}", "{expected}", {setup} return Shown({value});)\n')
    path.write_text(out.getvalue())


if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent.parent / "from_libtorch"
    write(folder / "spellings.inc", {**spellings_tensors.ROWS, **spellings_training.ROWS})
    write(folder / "unseen_spellings.inc", spellings_unseen.ROWS)
    write(folder / "second_spellings.inc", spellings_second.ROWS)
