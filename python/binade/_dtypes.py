"""PyTorch's names of the dtypes, and their NumPy counterparts."""

from . import _binade

float64 = double = _binade.f64
float32 = float = _binade.f32
float16 = half = _binade.f16
bfloat16 = _binade.bf16
float8_e4m3fn = _binade.e4m3
float8_e5m2 = _binade.e5m2
int64 = long = _binade.i64
int32 = int = _binade.i32
uint8 = _binade.u8
bool = _binade._boolean

# Types that NumPy has itself, and those that ml_dtypes adds to it with the integers that hold them.
_NUMPY = {float64: "<f8", float32: "<f4", float16: "<f2", int64: "<i8", int32: "<i4", uint8: "|u1",
          bool: "|b1"}
_ML_DTYPES = {bfloat16: ("<u2", "bfloat16"), float8_e4m3fn: ("|u1", "float8_e4m3fn"),
              float8_e5m2: ("|u1", "float8_e5m2")}


def ml_dtype(name):
    """The dtype of the package ml_dtypes, which NumPy needs for 8-bit floats and bfloat16."""
    try:
        import ml_dtypes
    except ImportError:
        _binade._fail("numpy", argument="dtype", expected="the package ml_dtypes for " + name,
                      found="none", hint="pip install ml_dtypes, or convert: x.float().numpy()")
    import numpy
    return numpy.dtype(getattr(ml_dtypes, name))


def ml_name(dtype):
    """The name that ml_dtypes has for a dtype; None if NumPy has it itself."""
    return _ML_DTYPES[dtype][1] if dtype in _ML_DTYPES else None


def memory_type(dtype):
    """The type string of a dtype's memory; integers for those that NumPy does not have."""
    return _NUMPY[dtype] if dtype in _NUMPY else _ML_DTYPES[dtype][0]


def numpy_layout(dtype):
    """The type string that describes the memory, and the dtype to view it as (None: the same)."""
    if dtype in _NUMPY:
        return _NUMPY[dtype], None
    typestr, name = _ML_DTYPES[dtype]
    return typestr, ml_dtype(name)
