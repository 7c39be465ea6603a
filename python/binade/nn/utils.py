"""Gradient clipping."""

import math

from .. import _binade
from .._binade import Tensor


def _listed(parameters):
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scales all gradients so that their norm is at most max_norm; returns the norm before."""
    parameters = _listed(parameters)
    if error_if_nonfinite:
        norm = _binade.grad_norm(parameters, norm_type).item()
        if not math.isfinite(norm):
            _binade._fail("clip_grad_norm_", argument="parameters", expected="gradients of a finite norm",
                          found=str(norm), hint="error_if_nonfinite=False clips them all the same")
    return _binade.clip_grad_norm_(parameters, max_norm, norm_type).reshape(())


def clip_grad_value_(parameters, clip_value):
    """Limits every element of the gradients to [-clip_value, clip_value]."""
    _binade.clip_grad_value_(_listed(parameters), clip_value)
