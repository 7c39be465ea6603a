"""New tensors, and tensors over memory of other libraries."""

import functools
import math
from typing import Callable

import numpy

from . import _binade
from ._binade import Tensor
from ._numbers import checked, integer, is_wide, plain


def _flat(data):
    """Values and shape of a nested list, of arrays or of numbers."""
    if isinstance(data, numpy.ndarray):
        return list(data.ravel()), data.shape
    if isinstance(data, (str, bytes)):
        raise TypeError(f"a tensor has numbers, not {data!r}")
    if not isinstance(data, (list, tuple, range)):
        return [data], ()
    values, shape = [], None
    for item in data:
        inner, inner_shape = _flat(item)
        if shape is not None and inner_shape != shape:
            _binade._fail("tensor", argument="data", expected="lists of equal lengths",
                          found=f"{list(shape)} and {list(inner_shape)}")
        values += inner
        shape = inner_shape
    return values, (len(data),) + (shape or ())


def _common_dtype(values):
    """What elements that have dtypes have in common with Python's numbers beside them; None if there
    are only such numbers."""
    kinds = {_binade.dtype(v.dtype) for v in values if isinstance(v, (Tensor, numpy.generic))}
    if not kinds:
        return None
    for kind, dtype in ((bool, "bool"), (int, "i64"), (float, "f32")):
        if any(type(v) is kind for v in values):
            kinds.add(_binade.dtype(dtype))
    return functools.reduce(lambda a, b: (_binade.empty(1, a) * _binade.empty(1, b)).dtype, kinds)


def tensor(data, dtype=None, device="cpu", requires_grad=False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested lists, an array or a tensor.

    >>> import binade as bn
    >>> bn.tensor([1.5, 2.5], dtype=bn.bf16)
    tensor([1.5, 2.5], dtype=bf16)
    """
    if isinstance(data, Tensor):
        new = data.detach().clone()
    elif hasattr(data, "__array_interface__"):
        array = numpy.asarray(data)
        new = _binade.empty(array.shape, dtype=_dtype_of(array, "tensor"))
        new.numpy()[...] = array
    elif hasattr(data, "__dlpack__"):
        new = from_dlpack(data).clone()
    else:
        values, shape = _flat(data)
        dtype = _common_dtype(values) if dtype is None else _binade.dtype(dtype)
        values = [plain(v) for v in values]
        if dtype is not None and not dtype.is_floating_point and dtype.name != "bool":
            values = [checked("tensor", v, dtype) for v in values]
        if values and all(isinstance(v, bool) for v in values):
            new = _binade._tensor([float(v) for v in values], shape, "bool", "cpu")
        elif values and all(isinstance(v, int) for v in values):
            new = _binade._integers(values, shape, "cpu")
        else:
            wide = "f64" if dtype == "f64" else "f32"
            new = _binade._tensor([float(v) for v in values], shape, wide, "cpu")
    if dtype is not None:
        new = new.to(_binade.dtype(dtype))
    return _leaf(new.to(device), requires_grad)


def _operand(array):
    """What an array or a number of NumPy is beside a tensor: a copy of it, or a Python number."""
    return array.item() if isinstance(array, numpy.generic) else tensor(array)


def _dtype_of(array, op):
    try:
        return _binade.dtype(array.dtype)
    except TypeError:
        _binade._fail(op, argument="array", expected="a dtype that Binade has",
                      found=str(array.dtype), hint="convert it with array.astype(...)")


def _element_strides(array):
    """Strides in elements, or None if Binade cannot view the memory as it is."""
    strides = []
    for stride in array.strides:
        if stride < 0 or stride % array.itemsize:
            return None
        strides.append(stride // array.itemsize)
    return tuple(strides)


def from_numpy(array) -> Tensor:
    """A tensor that shares the memory of a NumPy array, ml_dtypes' types included.

    >>> import binade as bn, numpy as np
    >>> a = np.zeros(3, np.float32)
    >>> x = bn.from_numpy(a)
    >>> a[1] = 7
    >>> x
    tensor([0., 7., 0.])
    """
    if not isinstance(array, numpy.ndarray):
        _binade._fail("from_numpy", argument="array", expected="a NumPy array",
                      found=type(array).__name__, hint="binade.asarray takes other objects")
    dtype = _dtype_of(array, "from_numpy")
    strides = _element_strides(array)
    if strides is None:
        _binade._fail("from_numpy", argument="array", expected="strides of whole, positive elements",
                      found=str(array.strides), hint="pass array.copy()")
    if not array.dtype.isnative:
        _binade._fail("from_numpy", argument="array", expected="native byte order",
                      found=str(array.dtype), hint="convert it with array.astype(...)")
    if not array.flags.writeable:
        _binade._fail("from_numpy", argument="array", expected="a writable array",
                      found="a read-only one", hint="binade.tensor(array) copies it")
    return _binade._from_pointer(array.ctypes.data, array.shape, strides, dtype, "cpu", array)


def from_dlpack(x) -> Tensor:
    """A tensor that shares the memory of any object with __dlpack__: torch, JAX, CuPy, NumPy.

    >>> import binade as bn, numpy as np
    >>> bn.from_dlpack(np.arange(3))
    tensor([0, 1, 2], dtype=i64)
    """
    if not hasattr(x, "__dlpack__"):
        return _binade._from_dlpack(x)  # a capsule
    options = {}
    if x.__dlpack_device__()[0] == 2:
        options["stream"] = 1  # CUDA's default stream, which _from_dlpack waits for
    try:
        capsule = x.__dlpack__(max_version=(1, 1), **options)
    except TypeError:  # a producer from before DLPack 1.0
        capsule = x.__dlpack__(**options)
    return _binade._from_dlpack(capsule)


def asarray(x, dtype=None, device=None) -> Tensor:
    """`x` as a tensor, without a copy if its memory can be shared."""
    if isinstance(x, Tensor):
        out = x
    elif isinstance(x, numpy.ndarray) and x.flags.writeable and _element_strides(x) is not None \
            and x.dtype.isnative:
        out = from_numpy(x)
    elif hasattr(x, "__dlpack__") and not isinstance(x, (numpy.ndarray, numpy.generic)):
        out = from_dlpack(x)
    else:
        out = tensor(x)
    if dtype is not None:
        out = out.to(dtype)
    return out if device is None else out.to(device)


as_tensor = asarray


def _size(size):
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size


def _leaf(new, requires_grad):
    if requires_grad:
        new.requires_grad = True
    return new


def _creator(name) -> Callable[..., Tensor]:
    native = getattr(_binade, name)

    def create(*sizes, size=None, requires_grad=False, **options) -> Tensor:
        options = {key: value for key, value in options.items() if value is not None or key == "seed"}
        if "dtype" in options:
            options["dtype"] = _binade.dtype(options["dtype"])
        return _leaf(native(_size(sizes if size is None else (size,)), **options), requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = native.__doc__
    return create


empty = _creator("empty")
zeros = _creator("zeros")
ones = _creator("ones")
randn = _creator("randn")
rand = _creator("rand")


def full(size, fill_value, dtype=None, device="cpu", requires_grad=False) -> Tensor:
    """A tensor of one value; without a dtype the value decides: bool, i64 or f32.

    >>> import binade as bn
    >>> bn.full((2,), 7)
    tensor([7, 7], dtype=i64)
    """
    if dtype is None and isinstance(fill_value, Tensor):
        dtype = fill_value.dtype
    fill_value = plain(fill_value)
    if dtype is None:
        kinds = ((bool, "bool"), (int, _binade.i64), (object, _binade.f32))
        dtype = next(dtype for kind, dtype in kinds if isinstance(fill_value, kind))
    fill_value = checked("full", fill_value, _binade.dtype(dtype))
    if is_wide(fill_value):
        new = integer(fill_value, device).to(dtype).expand(_size((size,))).clone()
    else:
        new = _binade.full(size, fill_value, dtype, device)
    return _leaf(new, requires_grad)


def _like(create) -> Callable[..., Tensor]:
    def like(input, *, dtype=None, device=None, requires_grad=False) -> Tensor:
        return create(input.shape, dtype=dtype or input.dtype, device=device or input.device,
                      requires_grad=requires_grad)

    like.__name__ = like.__qualname__ = create.__name__ + "_like"
    like.__doc__ = f"{create.__name__}() of input's shape, dtype and device."
    return like


zeros_like, ones_like, empty_like = _like(zeros), _like(ones), _like(empty)
rand_like, randn_like = _like(rand), _like(randn)


def full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False) -> Tensor:
    """One value in input's shape, dtype and device."""
    return full(input.shape, fill_value, dtype or input.dtype, device or input.device, requires_grad)


def logspace(start, end, steps, base=10.0, dtype=None, device="cpu") -> Tensor:
    """`steps` numbers from base**start to base**end, at equal ratios.

    >>> import binade as bn
    >>> bn.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    exponents = _binade.linspace(start, end, steps, _binade.f64)
    return _binade.pow(full((), base, _binade.f64), exponents).to(dtype or _binade.f32).to(device)


def normal(mean=0.0, std=1.0, size=None, *, seed=None) -> Tensor:
    """Normal numbers of a mean and a deviation, which may be tensors: then `size` is theirs.

    >>> import binade as bn
    >>> bn.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    if size is None:
        given = [x for x in (mean, std) if isinstance(x, Tensor)]
        if not given:
            _binade._fail("normal", argument="size", expected="the shape of the result",
                          found="none, and no tensor that has one")
        size = sum(zeros_like(x) for x in given).shape
    return randn(size, seed=seed) * std + mean


def randperm(n, *, seed=None, device="cpu") -> Tensor:
    """The numbers 0 ... n - 1 in random order: a function of `seed`, or of manual_seed and the
    number of draws.

    >>> import binade as bn
    >>> bn.randperm(4).sort().values
    tensor([0, 1, 2, 3], dtype=i64)
    """
    return rand(n, seed=seed, dtype=_binade.f64).argsort().to(device)


def arange(start=0, end=None, step=1, dtype=None, device="cpu", requires_grad=False) -> Tensor:
    """Numbers from `start` (0 if only one is given) up to `end`, `step` apart.

    >>> import binade as bn
    >>> bn.arange(0, 1, 0.25)
    tensor([0.  , 0.25, 0.5 , 0.75])
    """
    if end is None:
        start, end = 0, start
    start, end, step = (plain(v) for v in (start, end, step))
    whole = all(isinstance(v, int) for v in (start, end, step))
    if not all(math.isfinite(v) for v in (start, end, step)) or step == 0:
        _binade._fail("arange", argument="range", expected="finite numbers, and a step other than 0",
                      found=f"{start}, {end}, {step}")
    count = -(-(end - start) // step) if whole else math.ceil((end - start) / step)
    numbers = _binade._arange(max(0, count), "i64" if whole else "f64", device)
    if step != 1:
        numbers = numbers * step
    if start != 0:
        numbers = numbers + start
    default = _binade.i64 if whole else _binade.f32
    return _leaf(numbers.to(default if dtype is None else dtype), requires_grad)


def manual_seed(seed) -> None:
    """Restarts what this thread draws: initial weights, randn, dropout.

    >>> import binade as bn
    >>> bn.manual_seed(1); a = bn.randn(2)
    >>> bn.manual_seed(1); b = bn.randn(2)
    >>> (a == b).tolist()
    [True, True]
    """
    _binade.begin_step(seed, 0)
    _binade._init_restart(seed)
