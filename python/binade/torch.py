"""For PyTorch users: a torch model's linear layers with Binade's quantization, bit for bit, and
recordings of what a torch model computes (`record`) for `binade diff`. Needs torch.

The layers compute in f32 on the CPU; operands are rounded as the recipe rounds them.
"""

import torch

from ._torch_recording import record
from .quantization import quantize

__all__ = ["fake_quant", "record", "unquantize"]


class _FakeQuantize(torch.autograd.Function):
    """Quantized values forward; the gradient passes through."""

    @staticmethod
    def forward(ctx, x, recipe, format, role):
        values = quantize(x.detach().contiguous(), recipe, format, role=role).values
        return values.to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None, None


class _QuantizedLinear:
    """The forward of a torch.nn.Linear on quantized operands."""

    def __init__(self, layer, recipe, format):
        self.layer, self.recipe, self.format = layer, recipe, format

    def __call__(self, x):
        weight = _FakeQuantize.apply(self.layer.weight, self.recipe, self.format, "weight")
        x = _FakeQuantize.apply(x, self.recipe, self.format, "input")
        return torch.nn.functional.linear(x, weight, self.layer.bias)


def fake_quant(module, recipe="current", format=None):
    """Runs every torch.nn.Linear of `module` on operands quantized by a recipe of
    binade.quantize. Changes the module and returns it; unquantize() undoes it."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.forward = _QuantizedLinear(layer, recipe, format)
    return module


def unquantize(module):
    """Undoes fake_quant."""
    for layer in module.modules():
        if isinstance(layer.__dict__.get("forward"), _QuantizedLinear):
            del layer.forward
    return module
