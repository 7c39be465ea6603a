"""Methods of Tensor that are written in Python: NumPy, DLPack, indexing, conversions."""

import math

import numpy

from . import _binade
from ._binade import Tensor
from ._dtypes import memory_type, numpy_layout
from . import _creation, _functions, _in_place
from ._hooks import register_hook
from ._indexing import get_item, set_item
from ._numbers import checked, integer, is_wide, plain

# The objects that `bool`, `float` and `int` name in methods below.
_bool = _binade._boolean


def _require_no_grad(self, op):
    if self.requires_grad:
        _binade._fail(op, argument="self", expected="a tensor without a gradient",
                      found="one that requires it", hint="use x.detach()")


class _Memory:
    """What NumPy reads a tensor's memory from; the array keeps it, and it keeps the tensor."""

    def __init__(self, tensor, typestr):
        size = tensor.element_size()
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3, "data": (tensor.data_ptr(), False), "typestr": typestr,
            "shape": tensor.shape, "strides": tuple(s * size for s in tensor.stride())}


def raw_memory(tensor):
    """The memory as NumPy has it without ml_dtypes: integers for bf16 and FP8."""
    typestr = memory_type(tensor.dtype)
    if tensor.numel() == 0:
        return numpy.empty(tensor.shape, typestr)
    return numpy.asarray(_Memory(tensor, typestr))


def to_numpy(self):
    """A NumPy array that shares this tensor's memory, which must be on the CPU.

    bf16, e4m3 and e5m2 become dtypes of the package ml_dtypes.
    """
    _require_no_grad(self, "numpy")
    if self.device != "cpu":
        _binade._fail("numpy", argument="self", expected="a tensor on the CPU",
                      found=str(self.device), hint="use x.cpu()")
    typestr, view = numpy_layout(self.dtype)
    if self.numel() == 0:
        return numpy.empty(self.shape, typestr if view is None else view)
    array = numpy.asarray(_Memory(self, typestr))
    return array if view is None else array.view(view)


def _array(self, dtype=None, copy=None):
    _require_no_grad(self, "numpy")
    array = to_numpy(self.cpu())
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    if dl_device is not None and tuple(dl_device) != tuple(self.__dlpack_device__()):
        raise BufferError("binade exports a tensor on its own device only")
    source = self.detach().clone() if copy else self
    return source._dlpack(max_version is not None and max_version[0] >= 1)


def _to(self, *targets, other=None, device=None, dtype=None, non_blocking=False, copy=False):
    """This tensor in another dtype or on another device; itself, unless `copy`, if nothing changes."""
    flags = [target for target in targets if isinstance(target, _py_bool)]
    out = self
    for target in (*targets, other, device, dtype):
        if isinstance(target, Tensor):
            out = out._to(target.dtype)._to(target.device)
        elif target is not None and not isinstance(target, _py_bool):
            out = out._to(target)
    copy = copy or flags[1:2] == [True]  # after non_blocking
    return out.clone() if copy and _binade._same(out, self) else out


_py_bool = type(True)


def _converter(dtype):
    def convert(self):
        return self._to(dtype)

    convert.__doc__ = f"This tensor as {dtype}."
    return convert


def _tolist(self):
    """The values as nested lists of Python numbers."""
    return to_numpy(_readable(self)).tolist()


def _readable(self):
    """The values on the CPU in a dtype that NumPy has."""
    plain = self.detach().cpu()
    if plain.dtype in _WITH_NUMPY:
        return plain
    if plain.dtype in _FP8:
        return _binade._decode(plain.contiguous(), plain.dtype.name)
    return plain.float()


_FP8 = {_binade.e4m3, _binade.e5m2}
_WITH_NUMPY = {_binade.f64, _binade.f32, _binade.f16, _binade.i64, _binade.i32, _binade.u8, _bool}


def _repr(self):
    if self.device == "meta":
        return f"tensor(..., device=meta, shape={list(self.shape)}, dtype={self.dtype.name})"
    plain = _readable(self)
    if self.dtype == _binade.f16:
        plain = plain.float()
    text = numpy.array2string(to_numpy(plain), separator=", ", prefix="tensor(", precision=4)
    if self.dtype != _binade.f32 and self.dtype != _bool:
        text += f", dtype={self.dtype.name}"
    if self.device != "cpu":
        text += f", device={self.device}"
    if self.requires_grad:
        text += ", requires_grad=True"
    return f"tensor({text})"


def _sizes(name):
    native = getattr(Tensor, name)

    def method(self, *sizes):
        if len(sizes) == 1 and not isinstance(sizes[0], int):
            sizes = sizes[0]
        return native(self, tuple(sizes))

    method.__name__ = name
    method.__doc__ = native.__doc__
    return method


def _view(self, *sizes):
    """The same memory in another shape; refused where it would need a copy."""
    new = self.reshape(*sizes)
    if self.numel() and not _binade._share_memory(self, new):
        _binade._fail("view", argument="self", expected="memory that can be viewed in the new shape",
                      found=f"strides {list(self.stride())}", hint="use x.reshape(...), which copies")
    return new


def _expand(self, *sizes):
    """Axes of size 1 repeated without a copy; -1 keeps a size."""
    sizes = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    missing = len(sizes) - self.ndim
    kept = [self.shape[a - missing] if size == -1 and a >= missing else size
            for a, size in enumerate(sizes)]
    return _native_expand(self, tuple(kept))


_native_expand = Tensor.expand


def _set_data(self, value):
    """Gives this tensor, a leaf, and all that refers to it the memory of `value`, past autograd."""
    is_present = (value.data_ptr(), value.stride()) == (self.data_ptr(), self.stride())
    if is_present and value.numel() and (value.shape, value.dtype) == (self.shape, self.dtype):
        return  # the end of x.data += y
    self._set_data(value.detach())


def _fill(self, value):
    """One value everywhere."""
    value = checked("fill_", plain(value), self.dtype)
    if is_wide(value):
        return self.copy_(integer(value, self.device).to(self.dtype))
    return _native_fill(self, value)


_native_fill = Tensor.fill_


def _contains(self, item):
    """Whether an element equals a number."""
    return _py_bool((self == item).any())


def _creator(name):
    def create(self, *args, dtype=None, device=None, requires_grad=False):
        return getattr(_creation, name)(*args, dtype=dtype or self.dtype,
                                        device=device or self.device, requires_grad=requires_grad)

    create.__name__ = create.__qualname__ = "new_" + name
    create.__doc__ = f"{name}() of this tensor's dtype and device."
    return create


def _drawn(name):
    def draw(self, *args, **kwargs):
        _in_place.check_writable(name, self)
        from .nn import init
        return getattr(init, name)(self, *args, **kwargs)

    return draw


def _length(self):
    if self.ndim == 0:
        raise TypeError("a tensor without axes has no len()")
    return self.shape[0]


def _iterate(self):
    for i in range(_length(self)):
        yield self.select(0, i)


def _truth(self):
    if self.numel() != 1:
        raise ValueError("the truth value of a tensor with several elements is ambiguous")
    return _py_bool(self.item())


def _format(self, spec):
    """A tensor without axes, or of one element with a format, as its number."""
    is_number = self.ndim == 0 or (spec and self.numel() == 1)
    return format(self.item(), spec) if is_number else object.__format__(self, spec)


def _install():
    methods = {
        "numpy": to_numpy, "__array__": _array, "__dlpack__": _dlpack, "to": _to,
        "tolist": _tolist, "__repr__": _repr, "__getitem__": get_item, "__setitem__": set_item,
        "__len__": _length, "__iter__": _iterate, "__bool__": _truth,
        "__float__": lambda self: float(self.item()), "__int__": lambda self: int(self.item()),
        "__index__": lambda self: int(self.item()),
        "__hash__": object.__hash__, "__format__": _format,
        "float": _converter(_binade.f32), "double": _converter(_binade.f64),
        "half": _converter(_binade.f16), "bfloat16": _converter(_binade.bf16),
        "long": _converter(_binade.i64), "int": _converter(_binade.i32),
        "bool": _converter(_bool), "cpu": lambda self: self._to("cpu"),
        "cuda": lambda self, device="cuda": self._to(device),
        "type": lambda self, dtype: self._to(_binade.dtype(dtype)),
        "type_as": lambda self, other: self._to(other.dtype),
        "is_floating_point": lambda self: self.dtype.is_floating_point,
        "__deepcopy__": lambda self, memo: memo.setdefault(id(self), _deep_copy(self)),
        "__copy__": _shallow_copy, "__reduce__": _reduce, "__contains__": _contains, "fill_": _fill,
        # NumPy's operators leave those with a tensor to the tensor.
        "__array_ufunc__": None, "__array_priority__": 1000,
        "__pos__": lambda self: self,
        "view": _view, "expand": _expand, "register_hook": register_hook,
        "nelement": lambda self: self.numel(), "ndimension": lambda self: self.ndim,
        "uniform_": _drawn("uniform_"), "normal_": _drawn("normal_"),
    }
    for name in ("reshape", "permute", "repeat", "tile"):
        methods[name] = _sizes(name)
    for name in ("zeros", "ones", "empty", "full", "tensor"):
        methods["new_" + name] = _creator(name)
    methods.update(_functions.METHODS)
    properties = {
        "T": lambda self: self.permute(*reversed(range(self.ndim))),
        "mT": lambda self: self.transpose(-2, -1),
        "itemsize": lambda self: self.element_size(),
        "is_cuda": lambda self: self.device.type == "cuda",
    }
    for name, method in methods.items():
        setattr(Tensor, name, method)
    for name, getter in properties.items():
        setattr(Tensor, name, property(getter))
    Tensor.data = property(lambda self: self.detach(), _set_data)
    for name, method in _in_place.methods().items():
        setattr(Tensor, name, method)


def _deep_copy(self):
    _require_leaf(self, "deepcopy")
    copy = self.detach().clone()
    if self.requires_grad:
        copy.requires_grad = True
        copy.grad = None if self.grad is None else self.grad.clone()
    return copy


def _shallow_copy(self):
    """Another leaf with the same memory, as PyTorch's copy.copy() makes."""
    _require_leaf(self, "copy")
    copy = self.detach()
    copy.requires_grad = self.requires_grad
    return copy


def _require_leaf(self, op):
    if self.requires_grad and not self.is_leaf:
        _binade._fail(op, argument="self", expected="a leaf, or a tensor without a gradient",
                      found="a result of an op", hint="use x.detach()")


def _reduce(self):
    """Pickled as bytes, on the CPU; a leaf stays a leaf."""
    _require_leaf(self, "pickle")
    data = raw_memory(self.detach().cpu()).tobytes()
    return _rebuild, (data, self.shape, self.dtype.name, str(self.device), self.requires_grad)


def _rebuild(data, shape, dtype, device, requires_grad):
    size = math.prod(shape) * _binade.empty(0, dtype).element_size()
    if len(data) != size:  # before memory is asked for
        _binade._fail("load", argument="tensor", expected=f"{size} bytes for {list(shape)} {dtype}",
                      found=str(len(data)))
    new = _binade.empty(shape, dtype)
    array = raw_memory(new)
    array[...] = numpy.frombuffer(data, array.dtype).reshape(shape)
    new = new.to(device)
    if requires_grad:
        new.requires_grad = True
    return new


_install()
