"""Functions that are made of the engine's ops: other spellings, and forms with fewer arguments."""

import builtins
import math

from . import _binade
from ._binade import Tensor
from ._counting import unique, unique_consecutive
from ._entries import last_of_each, put
from ._numbers import checked, integer, is_wide, plain


def einsum(equation, *operands) -> Tensor:
    """The sum of products that an equation describes.

    >>> import binade as bn
    >>> bn.einsum("ij,jk->ik", bn.ones(2, 3), bn.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return _binade._einsum(equation, list(operands))


def checkpoint(function, *inputs) -> Tensor:
    """function(*inputs) without saving activations: the backward runs `function` again."""
    def checked(*given):
        result = function(*given)
        if not isinstance(result, _binade.Tensor):
            _binade._fail("checkpoint", argument="function", expected="one that returns a tensor",
                          found=type(result).__name__)
        return result

    return _binade._checkpoint(checked, list(inputs))


def equal(input, other) -> builtins.bool:
    """Whether two tensors have the same shape and equal elements.

    >>> import binade as bn
    >>> bn.equal(bn.ones(2), bn.ones(2)), bn.equal(bn.ones(2), bn.ones(3))
    (True, False)
    """
    if input.shape != other.shape:
        return False
    return bool((input == other).to(_binade.i32).sum().item() == input.numel())


def allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False) -> builtins.bool:
    """Whether isclose() holds for all elements.

    >>> import binade as bn
    >>> bn.allclose(bn.ones(2), bn.ones(2) + 1e-6)
    True
    """
    return builtins.bool(_binade.isclose(input, other, rtol, atol, equal_nan).all().item())


def _beside(number, tensor):
    """A number as a tensor that does not change the type of the other operand."""
    device = "cpu" if tensor is None else tensor.device
    if tensor is not None and tensor.dtype.is_floating_point:
        return _binade.full((), number, tensor.dtype, device)
    from ._creation import full
    return full((), number, device=device)


def where(condition, input=None, other=None) -> Tensor:
    """`input` where the condition holds, else `other`, either a tensor or a number; without them,
    the indices of the true elements, one tensor per axis.

    >>> import binade as bn
    >>> x = bn.tensor([-1.0, 2.0])
    >>> bn.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    given = [x if isinstance(x, Tensor) else None for x in (input, other)]
    anchor = given[0] if given[0] is not None else given[1]
    input, other = (x if isinstance(x, Tensor) else _beside(x, anchor) for x in (input, other))
    return _binade._where(condition, input, other)


_nonzero = _binade.nonzero


def nonzero(input, *, as_tuple=False):
    """The indices of elements that are not zero, [count, rank]; `as_tuple`: one tensor per axis."""
    places = _nonzero(input)
    return tuple(places.select(1, axis) for axis in range(input.ndim)) if as_tuple else places


_masked_fill = _binade.masked_fill


def masked_fill(input, mask, value) -> Tensor:
    """`value`, a number, where the mask holds, else input.

    >>> import binade as bn
    >>> bn.arange(3).masked_fill(bn.tensor([True, False, True]), 7)
    tensor([7, 1, 7], dtype=i64)
    """
    value = checked("masked_fill", plain(value), input.dtype)
    if is_wide(value):
        return _binade._where(mask, integer(value, input.device), input)
    return _masked_fill(input, mask, value)


_clamp = _binade.clamp


def clamp(input, min=None, max=None) -> Tensor:
    """Elements limited to [min, max], numbers or tensors; a floating number makes integers f32.

    >>> import binade as bn
    >>> bn.arange(4).clamp(max=2)
    tensor([0, 1, 2, 2], dtype=i64)
    """
    bounds = [bound for bound in (min, max) if bound is not None]
    if any(isinstance(bound, Tensor) or is_wide(bound) for bound in bounds):
        for bound, limit in ((min, _binade.maximum), (max, _binade.minimum)):
            if bound is not None:
                input = limit(input, integer(bound, input.device) if is_wide(bound) else bound)
        return input
    if not input.dtype.is_floating_point and any(isinstance(bound, float) for bound in bounds):
        input = input.float()
    return _clamp(input, *(number if bound is None else bound
                           for bound, number in ((min, -math.inf), (max, math.inf))))


def _axis_of(input, dim):
    if not -input.ndim <= dim < builtins.max(input.ndim, 1):
        raise IndexError(f"axis {dim} is out of range for a tensor with {input.ndim} axes")
    return dim % builtins.max(input.ndim, 1)


def _scatter_rows(input, dim, index):
    """The index of scatter() as places in the flattened input."""
    if index.numel() and not 0 <= index.amin().item() <= index.amax().item() < input.shape[dim]:
        _binade._fail("scatter", argument="index",
                      expected=f"indices of an axis of size {input.shape[dim]}",
                      found=f"{index.amin().item()} to {index.amax().item()}")
    from ._creation import arange
    rows = 0
    for axis, size in enumerate(input.shape):
        along = index
        if axis != dim:
            sizes = [1] * input.ndim
            sizes[axis] = index.shape[axis]
            along = arange(index.shape[axis], device=str(index.device)).reshape(sizes)
        rows = rows * size + along
    return rows.reshape(-1)


def scatter(input, dim, index, src=None, *, value=None) -> Tensor:
    """input with src's elements, or a number, at the indices along an axis; of those with one index
    the last stays.

    >>> import binade as bn
    >>> bn.zeros(2, 3).scatter(1, bn.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    source = value if src is None else src
    if not isinstance(source, Tensor):
        source = _beside(source, input).to(input.dtype).expand(index.shape)
    dim = _axis_of(input, dim)
    for axis in range(input.ndim):
        source = source.slice(axis, 0, index.shape[axis])
    rows, values = last_of_each(_scatter_rows(input, dim, index), source.reshape(-1))
    return put(input.reshape(-1), rows, values).reshape(input.shape)


_scatter_add = _binade.scatter_add


def scatter_add(input, dim, index, source) -> Tensor:
    """input with source's elements added at the indices along an axis."""
    for axis in range(index.ndim):
        source = source.slice(axis, 0, index.shape[axis])
    return _scatter_add(input, dim, index, source)


def take_along_dim(input, indices, dim) -> Tensor:
    """input.gather(dim, indices)."""
    return input.gather(dim, indices)


def nansum(input, dim=None, keepdim=False) -> Tensor:
    """The sum of the elements that are not NaN."""
    return where(input.isnan(), 0.0, input).sum(dim, keepdim)


def swapaxes(input, axis0, axis1) -> Tensor:
    """transpose() under NumPy's name."""
    return input.transpose(axis0, axis1)


def movedim(input, source, destination) -> Tensor:
    """An axis, or several, moved to another place; the others keep their order."""
    sources, places = ([axes] if isinstance(axes, int) else list(axes)
                       for axes in (source, destination))
    sources, places = ([_axis_of(input, axis) for axis in axes] for axes in (sources, places))
    if len(sources) != len(places) or len(set(sources)) + len(set(places)) != 2 * len(places):
        _binade._fail("movedim", argument="destination",
                      expected="as many places as axes, none twice", found=str(destination))
    order = [axis for axis in range(input.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources)):
        order.insert(place, axis)
    return input.permute(order)


moveaxis = movedim


def meshgrid(*tensors, indexing="ij"):
    """Lines as the coordinates of a grid: result i has line i along axis i; `indexing="xy"`: along
    axis 1 - i for the first two.

    >>> import binade as bn
    >>> rows, columns = bn.meshgrid(bn.arange(2), bn.arange(3))
    >>> columns.tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    return tuple(_binade._meshgrid(list(tensors), indexing))


def ravel(input) -> Tensor:
    """All elements in one axis."""
    return input.reshape(-1)


def is_tensor(obj) -> builtins.bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input) -> builtins.bool:
    """Whether the elements are floating-point numbers."""
    return input.dtype.is_floating_point


def broadcast_to(input, size) -> Tensor:
    """expand() under NumPy's name."""
    return input.expand(size)


concat = concatenate = _binade.cat
clip = clamp

# Functions of one tensor that are methods, too.
METHODS = {f.__name__: f for f in (
    clamp, masked_fill, nonzero, scatter, scatter_add, take_along_dim, nansum, swapaxes, movedim,
    ravel, broadcast_to,
    allclose, equal, unique, unique_consecutive)}
METHODS["moveaxis"], METHODS["clip"] = movedim, clamp
