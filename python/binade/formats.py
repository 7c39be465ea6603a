"""Number formats: their limits, and bit-exact conversions of arrays.

>>> import binade as bn
>>> bn.formats.e4m3.max, bn.formats.e5m2.max, bn.formats.e2m1.max
(448.0, 57344.0, 6.0)
>>> import numpy as np
>>> bn.formats.round(np.array([0.1, 500.0], np.float32), "e4m3")
array([1.015625e-01, 4.480000e+02], dtype=float32)
"""

import numpy

from . import _binade
from ._binade import Format  # noqa: F401
from ._creation import asarray
from ._dtypes import ml_name
from ._methods import raw_memory

all = tuple(_binade._formats())
_by_name = {format.name: format for format in all}
f32, tf32, f16, bf16, e4m3, e4m3fnuz, e5m2, e8m0, e2m1 = (
    _by_name[name] for name in
    ("f32", "tf32", "f16", "bf16", "e4m3", "e4m3fnuz", "e5m2", "e8m0", "e2m1"))

# Formats whose codes Binade keeps as plain bytes, by their names in ml_dtypes.
_BYTES = {"e4m3fnuz": "float8_e4m3fnuz", "e8m0": "float8_e8m0fnu", "e2m1": "float4_e2m1fn"}


def get(format):
    """The format with a name."""
    if isinstance(format, Format):
        return format
    if format not in _by_name:
        _binade._fail("formats", argument="format", expected="one of " + ", ".join(_by_name),
                      found=repr(format))
    return _by_name[format]


def _name(format):
    return format.name if isinstance(format, Format) else format


def _dense_f32(x):
    return asarray(x).detach().cpu().float().contiguous()


def codes_array(codes, format):
    """A tensor of codes as a NumPy array, with ml_dtypes' dtype if the package has the format."""
    array = raw_memory(codes)
    name = _BYTES.get(_name(format)) or ml_name(codes.dtype)
    if name is None:
        return array
    try:
        import ml_dtypes
        return array.view(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        return array


def encode(x, format, rounding="nearest_even", saturate=False, seed=0):
    """The codes of `x` in a format, as a NumPy array.

    rounding: "nearest_even", "toward_zero" or "stochastic", which draws from `seed`. Values past
    the largest number become infinite or NaN, or that number with `saturate`.
    """
    codes = _binade._encode(_dense_f32(x), _name(format), rounding, saturate, seed)
    return codes_array(codes, format)


def decode(codes, format):
    """The exact f32 values of codes."""
    array = numpy.ascontiguousarray(codes)
    if _name(format) in _BYTES:
        array = array.view(numpy.uint8)
    return _binade._decode(asarray(array), _name(format)).numpy()


def round(x, format, rounding="nearest_even", saturate=True, seed=0):
    """`x` rounded to a format, as f32."""
    codes = _binade._encode(_dense_f32(x), _name(format), rounding, saturate, seed)
    return _binade._decode(codes, _name(format)).numpy()


def table():
    """The table of `binade formats`."""
    return _binade._formats_table()
