"""x += y, x.add_(y) and their kin: they write into x, whose other names and views see the change, and
into the graph, as PyTorch's do."""

from . import _binade
from ._binade import Tensor


def _kind(dtype):
    """The place of a dtype in the order bool, integers, floats."""
    if dtype.is_floating_point:
        return 2
    return 0 if dtype.name == "bool" else 1


def _refuse(op, expected, found, hint=""):
    _binade._fail(op, argument="self", expected=expected, found=found, hint=hint)


def is_recorded(*operands):
    """Whether an op on these would be recorded for backward()."""
    return _binade.is_grad_enabled() and any(
        isinstance(x, Tensor) and x.requires_grad for x in operands)


def check_writable(op, self):
    """Refuses leaves that require a gradient: backward() would not know of the write."""
    if self.requires_grad and self.is_leaf and _binade.is_grad_enabled():
        _refuse(op, "a tensor that is no leaf with a gradient",
                "a leaf that requires a gradient", "write inside `with binade.no_grad():`")


def _check_result(op, self, result):
    if result.shape != self.shape:
        _refuse(op, f"a result of shape {list(self.shape)}", str(list(result.shape)))
    if _kind(result.dtype) > _kind(self.dtype):
        _refuse(op, f"a result that {self.dtype.name} holds", result.dtype.name,
                f"convert x first: x.to(binade.{result.dtype.name})")


def _with_own_memory(self, operands):
    """Operands that the write leaves as they are: a backward may need their values."""
    return [x.clone() if isinstance(x, Tensor) and _binade._share_memory(self, x) else x
            for x in operands]


def _write(op, self, function, args, kwargs):
    check_writable(op, self)
    first = self
    if is_recorded(self, *args, *kwargs.values()):
        first, *args = _with_own_memory(self, [self, *args])
    result = function(first, *args, **kwargs)
    if result is NotImplemented:
        return result
    _check_result(op, self, result)
    return self.copy_(result)


def written(op, x, function, options):
    """function(x, **options) as the new values of x."""
    return _write(op, x, function, [], options)


def _operator(symbol, function):
    def method(self, other):
        return _write(f"x {symbol} y", self, function, [other], {})

    return method


def _method(name, function):
    def method(self, *args, **kwargs):
        return _write(name, self, function, args, kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{name[:-1]}() in place."
    return method


def _scaled(function):
    def with_alpha(self, other, *, alpha=1):
        return function(self, other if alpha == 1 else other * alpha)

    return with_alpha


_OPERATORS = {"iadd": ("+=", "add"), "isub": ("-=", "sub"), "imul": ("*=", "mul"),
              "itruediv": ("/=", "truediv"), "ifloordiv": ("//=", "floordiv"),
              "imod": ("%=", "mod"), "ipow": ("**=", "pow"), "iand": ("&=", "and"),
              "ior": ("|=", "or"), "ixor": ("^=", "xor"), "ilshift": ("<<=", "lshift"),
              "irshift": (">>=", "rshift"), "imatmul": ("@=", "matmul")}
# Those that the engine's table of ops names, and ops with forms of their own.
_METHODS = (*_binade._in_place_ops, "mul", "div")


def methods():
    """Names and functions of what is added to Tensor."""
    found = {f"__{name}__": _operator(symbol, getattr(Tensor, f"__{plain}__"))
             for name, (symbol, plain) in _OPERATORS.items() if hasattr(Tensor, f"__{plain}__")}
    for name in _METHODS:
        if hasattr(Tensor, name):
            found[name + "_"] = _method(name + "_", getattr(Tensor, name))
    for name in ("add", "sub"):
        found[name + "_"] = _method(name + "_", _scaled(getattr(Tensor, name)))
    return found
