"""Initial values, in place."""

from .. import _binade


def _replace(tensor, values):
    tensor.detach().copy_(values)
    return tensor


def normal_(tensor, mean=0.0, std=1.0):
    values = _binade._init_normal(tensor.shape, std, tensor.device, _binade.f32)
    return _replace(tensor, values + mean if mean else values)


def uniform_(tensor, a=0.0, b=1.0):
    values = _binade._init_uniform(tensor.shape, (b - a) / 2, tensor.device, _binade.f32)
    return _replace(tensor, values + (a + b) / 2)


def constant_(tensor, val):
    tensor.detach().fill_(val)
    return tensor


def zeros_(tensor):
    return constant_(tensor, 0)


def ones_(tensor):
    return constant_(tensor, 1)
