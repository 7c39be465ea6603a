"""x[...] with numbers, slices, None, Ellipsis, and one index or mask tensor."""

import numpy

from . import _binade
from ._binade import Tensor

_BOOL = getattr(_binade, "bool")


def _as_index(item):
    """Lists and arrays as index tensors."""
    if not isinstance(item, (list, numpy.ndarray)):
        return item
    array = numpy.asarray(item)
    if array.dtype == numpy.bool_:
        return _binade._tensor(array.astype(float).ravel().tolist(), array.shape, _BOOL, "cpu")
    return _binade._integers(array.astype(int).ravel().tolist(), array.shape, "cpu")


def _axes_of(item):
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype == _BOOL else 1


def _expanded(x, index):
    """The index as a list with one entry per axis, Ellipsis replaced by slices."""
    items = [_as_index(i) for i in (index if isinstance(index, tuple) else (index,))]
    used = sum(_axes_of(i) for i in items)
    if used > x.ndim:
        raise IndexError(f"too many indices: {used} for a tensor with {x.ndim} axes")
    rest = [slice(None)] * (x.ndim - used)
    for place, item in enumerate(items):
        if item is Ellipsis:
            return items[:place] + rest + items[place + 1:]
    return items + rest


def _positions(mask):
    """Indices of the true elements of a mask, counted in row-major order."""
    return numpy.flatnonzero(mask.cpu().numpy()).tolist()


def _take(x, axis, item):
    """x with the axes that an index tensor covers replaced by what it selects."""
    if item.dtype == _BOOL:
        shape = x.shape
        covered = shape[axis:axis + item.ndim]
        if covered != item.shape:
            raise IndexError(f"a mask of shape {list(item.shape)} for axes of {list(covered)}")
        x = x.reshape(shape[:axis] + (item.numel(),) + shape[axis + item.ndim:])
        places = _positions(item)
        return x.index_select(axis, _binade._integers(places, (len(places),), x.device)), 1
    shape = x.shape[:axis] + item.shape + x.shape[axis + 1:]
    flat = _binade.where(item < 0, item + x.shape[axis], item).reshape((item.numel(),))
    return x.index_select(axis, flat).reshape(shape), item.ndim


def _number(x, axis, item):
    size = x.shape[axis]
    place = item.__index__()
    if not -size <= place < size:
        raise IndexError(f"index {place} is out of range for an axis of size {size}")
    return x.select(axis, place + size if place < 0 else place)


def get_item(self, index):
    """x[index]: a view for numbers, slices, None and Ellipsis; a copy for index tensors."""
    x, axis = self, 0
    for item in _expanded(self, index):
        if item is None:
            x = x.unsqueeze(axis)
            axis += 1
        elif isinstance(item, slice):
            start, stop, step = item.indices(x.shape[axis])
            if step < 0:
                raise IndexError("slices with a negative step are not supported")
            if (start, stop, step) != (0, x.shape[axis], 1):
                x = x.slice(axis, start, max(start, stop), step)
            axis += 1
        elif isinstance(item, Tensor) and (item.ndim > 0 or item.dtype == _BOOL):
            x, axes = _take(x, axis, item)
            axis += axes
        elif hasattr(item, "__index__"):
            x = _number(x, axis, item)
        else:
            raise TypeError(f"an index is a number, a slice, None, ... or a tensor, not {item!r}")
    return x


def set_item(self, index, value):
    """x[index] = value in place."""
    if self.requires_grad and _binade.is_grad_enabled():
        _binade._fail("x[...] =", argument="self",
                      expected="a tensor without a gradient, or binade.no_grad()",
                      found="one that requires a gradient")
    if not isinstance(value, Tensor):
        from ._creation import tensor
        value = tensor(value, dtype=self.dtype, device=self.device)
    elif value.requires_grad and _binade.is_grad_enabled():
        _binade._fail("x[...] =", argument="value",
                      expected="a tensor without a gradient, or binade.no_grad()",
                      found="one that requires a gradient",
                      hint="join results by stack() or cat(), or write value.detach()")
    target = self.detach()
    items = _expanded(self, index)
    tensors = [i for i in items if isinstance(i, Tensor) and (i.ndim > 0 or i.dtype == _BOOL)]
    if not tensors:
        get_item(target, index).copy_(value)
    elif items[0] is tensors[0] and tensors[0].dtype == _BOOL and value.ndim == 0:
        mask = tensors[0].reshape(tensors[0].shape + (1,) * (self.ndim - tensors[0].ndim))
        target.copy_(_binade.where(mask, value.to(self.dtype), target))
    elif items[0] is tensors[0] and len(tensors) == 1 and tensors[0].ndim == 1:
        rows = tensors[0]
        if rows.dtype == _BOOL:
            places = _positions(rows)
            rows = _binade._integers(places, (len(places),), self.device)
        values = value.to(self.dtype).expand((rows.numel(),) + self.shape[1:]).contiguous()
        target.copy_(_binade.index_put(target, rows, values))
    else:
        raise IndexError("only x[mask] = number and x[rows] = values are supported for tensors")
