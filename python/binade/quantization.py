"""Quantize anything: codes, scales and the error, bit for bit as the engine does it."""

import numpy

from . import _binade, formats
from ._binade import Tensor
from ._creation import asarray
from .amp import Recipe

# Names of complete arrangements: the recipe, and the format it implies.
_NAMED = {"mxfp8": ("mx", "e4m3"), "mxfp8_e5m2": ("mx", "e5m2"), "mxfp4": ("mx", "e2m1")}
_RECIPES = ("delayed", "current", "row", "block", "mx")


class Quantization:
    """A quantized array.

    codes: the data, in ml_dtypes' dtype if the package is installed. scales: what codes are
    multiplied by, one per group of `group` elements. values: the quantized values in f32. sqnr: the
    ratio of signal and quantization noise of finite elements in dB. saturated, underflowed: elements that shrank to
    the largest number, and nonzero elements that became zero.
    """

    def __init__(self, codes, scales, values, sqnr, saturated, underflowed, format, group):
        self.codes, self.scales, self.values = codes, scales, values
        self.sqnr, self.saturated, self.underflowed = sqnr, saturated, underflowed
        self.format, self.group = format, group

    def __repr__(self):
        return (f"<{self.format} {list(numpy.shape(self.values))}, SQNR {self.sqnr:.1f} dB, "
                f"{self.saturated} saturated, {self.underflowed} underflowed>")


def _arrangement(recipe, format):
    """The Recipe, or None for values without scales, and the format that was asked for."""
    if not isinstance(recipe, str):
        return recipe, format
    if recipe in _RECIPES or "," in recipe or "=" in recipe:
        return Recipe(recipe), format
    if recipe == "none":
        return None, format or "e4m3"
    if recipe not in _NAMED and recipe not in [known.name for known in formats.all]:
        _binade._fail("quantize", argument="recipe", found=repr(recipe), expected="one of " + ", ".join(
            ("none", *_RECIPES, *_NAMED, *(known.name for known in formats.all))))
    name, implied = _NAMED.get(recipe) or (None, recipe)
    if format not in (None, implied):
        _binade._fail("quantize", argument="format", expected=f"{implied}, which {recipe} implies",
                      found=str(format))
    return Recipe(name) if name else None, implied


def _delayed_scale(amax, format, rule, margin):
    """The scale a delayed recipe derives from an amax, in f32."""
    if amax == 0 or not numpy.isfinite(amax):
        return 1.0
    scale = numpy.ldexp(numpy.float32(formats.get(format).max) / numpy.float32(amax), -margin)
    if rule == "power_of_two":
        scale = numpy.ldexp(0.5, numpy.frexp(scale)[1])
    return float(scale)


def quantize(array, recipe="current", format=None, *, role="input", scale=None, amax=None,
             power_of_two=None, eps=None):
    """Quantizes a NumPy array, a torch tensor or a Binade tensor.

    recipe: "none" (scale 1), the name of a format (unscaled), "mxfp8", "mxfp8_e5m2", "mxfp4", or
    an amp.Recipe or its text: "delayed" (from `scale` or `amax`), "current", "row", "block", "mx",
    "row, eps = 1e-6". role: "input", "weight" or "gradient", which a recipe may treat in different
    ways. format: by default the recipe's. power_of_two and eps override the recipe's.

    >>> import binade as bn, numpy as np
    >>> q = bn.quantize(np.array([[1.0, 0.5, 1e-9, 100.0]], np.float32), "current")
    >>> q.scales, q.underflowed
    (array([[0.22321428]], dtype=float32), 1)
    >>> q.values[0, 3]
    np.float32(100.0)
    """
    recipe, format = _arrangement(recipe, format)
    usual, group, rule, recipe_eps, margin = \
        (format, (0, 0), "largest", 0.0, None) if recipe is None else _binade._tensor_recipe(recipe, role)
    format = format or usual
    x = asarray(array.detach() if hasattr(array, "detach") else array)
    shape = x.shape
    if x.numel() == 0:
        return _empty(x, array, format)
    flat = x.cpu().float().reshape((-1, shape[-1]) if x.ndim > 0 else (1, 1)).contiguous()
    mx = rule == "mx_floor"
    if power_of_two is not None and not mx:
        rule = "power_of_two" if power_of_two else "largest"
    if recipe is None:
        scale = 1.0
    elif margin is not None and scale is None:
        amax = flat.abs().max().item() if amax is None else amax
        scale = _delayed_scale(amax, format, rule, margin)
    if scale is not None and not 0 < numpy.float32(scale) < numpy.inf:
        _binade._fail("quantize", argument="scale", expected="a finite number more than 0",
                      found=str(scale))
    codes, scales, values, sqnr, saturated, underflowed = _binade._quantize(
        flat, format, group, rule, recipe_eps if eps is None else eps, scale)
    scales = formats.codes_array(scales, "e8m0") if mx and scale is None else scales.numpy()
    values = values.reshape(shape)
    return Quantization(formats.codes_array(codes, format).reshape(shape), scales,
                        _like(values, array), sqnr, saturated, underflowed, format, group)


def _empty(x, array, format):
    codes = _binade.empty(x.shape, dtype=_binade.u8)
    return Quantization(formats.codes_array(codes, format), numpy.empty((0, 0), numpy.float32),
                        _like(x.cpu().float(), array), float("inf"), 0, 0, format, (0, 0))


def _like(values, array):
    """The result as what was given: a Binade tensor, a torch tensor, else a NumPy array."""
    if isinstance(array, Tensor):
        return values
    if type(array).__module__.split(".")[0] == "torch":
        import torch
        return torch.from_dlpack(values)
    return values.numpy()
