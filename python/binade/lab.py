"""Diagnostics: the cause of a non-finite loss or gradient."""

from . import _binade
from ._binade import Diagnosis, Tensor  # noqa: F401
from .amp import _in_f32
from .nn.module import Module


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
