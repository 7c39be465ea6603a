"""Diagnostics: the cause of a non-finite loss or gradient; any tensor of a step of a recorded run."""

import os

from . import _binade
from ._binade import Diagnosis, StepView, Tensor  # noqa: F401
from .amp import _in_f32
from .nn.module import Module
from .training import _spelled_in_python, _text


def diagnose(loss, parameters=(), scale=1.0):
    """Finds what made a loss or a gradient infinite or NaN; None if everything is finite.

    `loss` is a function without arguments that runs the forward, always with the same result, and
    opens its autocast itself. `parameters` is a module, or (name, tensor) pairs. Gradients are
    cleared.

    >>> import binade as bn
    >>> w = bn.tensor([70000.0], requires_grad=True)
    >>> def loss():
    ...     with bn.amp.autocast("cpu", dtype=bn.float16):
    ...         return bn.matmul(w.reshape(1, 1), bn.ones(1, 1)).sum()
    >>> bn.lab.diagnose(loss, [("w", w)]).verdict
    'range'
    """
    if isinstance(parameters, Module):
        named = list(parameters.named_parameters())
    else:
        named = [(f"parameter {i}", p) if isinstance(p, Tensor) else tuple(p)
                 for i, p in enumerate(parameters)]

    def run(in_f32):
        if not in_f32:
            return loss()
        with _in_f32():
            return loss()

    return _binade._diagnose(run, named, scale)


def at(run, step, *, micro=0, tensor=(), shadow=True):
    """Replays a step of the run in a folder, as `binade at` does, and returns its tensors.

    `tensor` is a pattern of names or a list of these, such as "blocks.0.*", "gradient/*" or
    "logits"; none: all.
    `micro` is the micro-batch whose activations and gradients are captured, -1: all. With `shadow`
    it is computed in f32, too, for comparison. The result has `tensors` and `summaries` by name, and
    `equal`, which is False if the replay is not what the run recorded. Other threads must not compute
    meanwhile.

    >>> view = binade.lab.at("runs/1", 812, tensor="logits")  # doctest: +SKIP
    >>> view.tensors["logits"].shape  # doctest: +SKIP
    (8, 64, 256)
    """
    patterns = [tensor] if isinstance(tensor, str) else list(tensor)
    with _spelled_in_python():
        return _binade._at(os.fspath(run), step, micro, patterns, shadow)


def branch(run, step, folder, **settings):
    """Makes a run in `folder` that continues `run` after a step, with other settings.

    Settings are the options of `binade train`: `lr=1e-4`, `grad_clip=0.5`. Returns the command that
    continues it.
    """
    texts = [f"{key.replace('_', '-')}={_text(value)}" for key, value in settings.items()]
    with _spelled_in_python():
        return _binade._branch(os.fspath(run), step, os.fspath(folder), texts)
