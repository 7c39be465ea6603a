"""Python's numbers as elements: refused where a dtype does not hold them, and with all digits."""

import math

import numpy

from . import _binade
from ._binade import Tensor

# The least and the largest value.
RANGES = {_binade.f64: (-1.7976931348623157e308, 1.7976931348623157e308),
          _binade.f32: (-3.4028234663852886e38, 3.4028234663852886e38),
          _binade.f16: (-65504.0, 65504.0),
          _binade.bf16: (-3.3895313892515355e38, 3.3895313892515355e38),
          _binade.i64: (-2**63, 2**63 - 1), _binade.i32: (-2**31, 2**31 - 1), _binade.u8: (0, 255)}


pi, inf, nan = math.pi, math.inf, math.nan

# The distance from 1 to the next number, and the smallest positive number of full precision.
_PRECISION = {_binade.f64: (2.0**-52, 2.0**-1022), _binade.f32: (2.0**-23, 2.0**-126),
              _binade.f16: (2.0**-10, 2.0**-14), _binade.bf16: (2.0**-7, 2.0**-126)}


class iinfo:
    """The range of an integer dtype: min and max.

    >>> import binade as bn
    >>> bn.iinfo(bn.uint8).max
    255
    """

    def __init__(self, dtype):
        self.dtype = _binade.dtype(dtype)
        if self.dtype.is_floating_point or self.dtype not in RANGES:
            raise TypeError(f"iinfo takes integer dtypes, not {self.dtype.name}")
        self.min, self.max = RANGES[self.dtype]


class finfo:
    """The range and precision of f64, f32, f16 or bf16: min, max, eps and tiny.

    >>> import binade as bn
    >>> bn.finfo(bn.float16).max
    65504.0
    """

    def __init__(self, dtype=_binade.f32):
        self.dtype = _binade.dtype(dtype)
        if self.dtype not in _PRECISION:
            raise TypeError(f"finfo takes f64, f32, f16 and bf16, not {self.dtype.name}")
        self.min, self.max = RANGES[self.dtype]
        self.eps, self.tiny = _PRECISION[self.dtype]
        self.smallest_normal = self.tiny


def plain(value):
    """A number of Python for one of NumPy or a tensor of one element."""
    return value.item() if isinstance(value, (Tensor, numpy.generic)) else value


def checked(op, value, dtype):
    """`value` as an element of dtype. u8 takes negative numbers modulo 256, as PyTorch does."""
    low, high = RANGES.get(dtype, (-math.inf, math.inf))
    is_whole = dtype in RANGES and not dtype.is_floating_point
    if is_whole and math.isfinite(value):
        value = int(value)
        if dtype == _binade.u8 and -256 < value < 0:
            value += 256
    fits = low <= value <= high or not (is_whole or math.isfinite(value))
    if not fits:
        _binade._fail(op, argument="value", expected=f"a number that {dtype.name} holds, {low} to {high}",
                      found=str(value), hint="use a wider dtype, or a value in its range")
    return value


def is_wide(value):
    """Whether a number has more digits than a double."""
    return isinstance(value, int) and int(float(value)) != value


def integer(value, device):
    """A whole number as a tensor without axes, with all its digits."""
    return _binade._integers([int(value)], (), str(device))
