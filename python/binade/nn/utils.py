"""Gradient clipping."""

from .. import _binade
from .._binade import Tensor


def _listed(parameters):
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    """Scales all gradients so that their norm is at most max_norm; returns the norm before."""
    return _binade.clip_grad_norm_(_listed(parameters), max_norm, norm_type)


def clip_grad_value_(parameters, clip_value):
    """Limits every element of the gradients to [-clip_value, clip_value]."""
    _binade.clip_grad_value_(_listed(parameters), clip_value)
