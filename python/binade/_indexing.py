"""x[...] as NumPy and PyTorch define it.

Numbers, slices, None and Ellipsis give views. Index arrays (tensors, arrays, lists; masks stand for
the places at which they hold) are broadcast together and select one element per place: a copy.
"""

import numpy

from . import _binade
from ._binade import Tensor
from ._entries import last_of_each, put, select
from ._in_place import check_writable, is_recorded
from ._numbers import checked, integer, is_wide, plain

_BOOL = _binade._boolean
_INTEGERS = (_binade.i64, _binade.i32)


def _as_index(item):
    """Lists and arrays as index tensors; other items as they are."""
    is_number = isinstance(item, (Tensor, numpy.ndarray)) and item.ndim == 0
    if isinstance(item, numpy.bool_) or (is_number and item.dtype in (_BOOL, numpy.bool_)):
        return bool(item)  # True and False add an axis
    if not isinstance(item, (list, range, numpy.ndarray)):
        return item
    array = numpy.asarray(item)
    if array.size == 0 and not isinstance(item, numpy.ndarray):
        array = array.astype(numpy.int64)
    if array.dtype == numpy.bool_:
        return _binade._tensor(array.astype(float).ravel().tolist(), array.shape, _BOOL, "cpu")
    if array.dtype.kind not in "iu":
        raise IndexError(f"an index array has integers or truth values, not {array.dtype}")
    return _binade._integers(array.astype(numpy.int64).ravel().tolist(), array.shape, "cpu")


def _is_mask(item):
    return isinstance(item, Tensor) and item.dtype == _BOOL


def _axes_of(item):
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if _is_mask(item) else 1


def _expanded(x, index):
    """The index as a list that covers every axis, Ellipsis replaced by slices."""
    items = [_as_index(i) for i in (index if isinstance(index, tuple) else (index,))]
    used = sum(_axes_of(i) for i in items)
    if used > x.ndim:
        raise IndexError(f"too many indices: {used} for a tensor with {x.ndim} axes")
    rest = [slice(None)] * (x.ndim - used)
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index has at most one Ellipsis")
    place = dots[0] if dots else len(items)
    return items[:place] + rest + items[place + 1:]


def _number(x, axis, item):
    size = x.shape[axis]
    place = item.__index__()
    if not -size <= place < size:
        raise IndexError(f"index {place} is out of range for an axis of size {size}")
    return x.select(axis, place + size if place < 0 else place)


def _slice(x, axis, item):
    start, stop, step = item.indices(x.shape[axis])
    if step < 0:
        raise ValueError(f"expected a step above 0, found {step}: use x.flip({axis})")
    if (start, stop, step) == (0, x.shape[axis], 1):
        return x
    return x.slice(axis, start, max(start, stop), step)


def _truth(x, axis, item):
    """True adds an axis of size 1, False one of size 0."""
    x = x.unsqueeze(axis)
    return x if item else x.slice(axis, 0, 0)


def _mask_places(x, axis, mask):
    covered = x.shape[axis:axis + mask.ndim]
    if covered != mask.shape:
        raise IndexError(f"a mask of shape {list(mask.shape)} for axes of {list(covered)}")
    places = mask.nonzero()
    return [places.select(1, i) for i in range(mask.ndim)]


def _wrapped(item, size):
    """Indices with negative ones counted from the end; refuses those out of range."""
    if item.dtype not in _INTEGERS:
        raise IndexError(f"an index tensor has i64, i32 or bool, not {item.dtype.name}")
    if item.numel() == 0:
        return item.long()
    low, high = item.amin().item(), item.amax().item()
    if low < -size or high >= size:
        worst = low if low < -size else high
        raise IndexError(f"index {worst} is out of range for an axis of size {size}")
    return _binade._where(item < 0, item + size, item).long() if low < 0 else item.long()


class _Selection:
    """An index applied to a tensor: a view, and index tensors for some of its axes."""

    def __init__(self, x, index):
        self.view, self.axes, self.places = x, [], []
        # For each item that selects: its axis in the view, and whether it is an index array.
        self._runs, self._truths = [], 0
        axis = 0
        for item in _expanded(x, index):
            axis = self._apply(axis, item)
        if self._truths and self.places:
            raise IndexError("True and False do not stand beside index arrays: use None")
        if self.places:
            self._broadcast()
            self._check_order()

    def _apply(self, axis, item):
        """Applies an item at an axis of the view; returns the axis of the next one."""
        if item is None:
            self.view = self.view.unsqueeze(axis)
        elif isinstance(item, bool):
            self.view, self._truths = _truth(self.view, axis, item), self._truths + 1
        elif isinstance(item, slice):
            self.view = _slice(self.view, axis, item)
        elif isinstance(item, Tensor) and (item.ndim > 0 or item.dtype == _BOOL):
            return self._add_places(axis, item)
        elif hasattr(item, "__index__"):
            self.view = _number(self.view, axis, item)
            self._runs.append((axis, False))
            return axis
        else:
            raise TypeError(f"an index is a number, a slice, None, ... or a tensor, not {item!r}")
        return axis + 1

    def _add_places(self, axis, item):
        found = _mask_places(self.view, axis, item) if _is_mask(item) else [item]
        for offset, places in enumerate(found):
            self.axes.append(axis + offset)
            self.places.append(_wrapped(places, self.view.shape[axis + offset]))
            self._runs.append((axis + offset, True))
        return axis + len(found)

    def _broadcast(self):
        try:
            shape = numpy.broadcast_shapes(*(p.shape for p in self.places))
        except ValueError:
            raise IndexError("index arrays of shapes that do not broadcast: "
                             + ", ".join(str(list(p.shape)) for p in self.places)) from None
        self.shape = tuple(shape)
        self.places = [p.expand(self.shape).to(self.view.device) for p in self.places]

    def _is_adjacent(self):
        return self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))

    def _check_order(self):
        """NumPy counts a number beside index arrays as one of them, PyTorch does not. Where that
        moves the selected axes, both readings are refused."""
        steps = [(a, array) for a, array in self._runs]
        joined = all(b == a + int(array) for (a, array), (b, _) in zip(steps, steps[1:]))
        if joined or not any(not array for _, array in steps):
            return
        if self._is_adjacent() and self.axes[0] != 0:
            raise IndexError("a number and an index array with a slice between them: NumPy and "
                             "PyTorch order the result differently; write x[number][...]")

    @property
    def target(self):
        """Where the selected axes begin in the result."""
        return self.axes[0] if self._is_adjacent() else 0

    def order(self):
        """The view's axes with the indexed ones next to each other, at `target`."""
        rest = [a for a in range(self.view.ndim) if a not in self.axes]
        return rest[:self.target] + self.axes + rest[self.target:]

    def rows(self):
        """The places as indices into the indexed axes flattened."""
        flat = self.places[0]
        for axis, places in zip(self.axes[1:], self.places[1:]):
            flat = flat * self.view.shape[axis] + places
        return flat.reshape((flat.numel(),))

    def flattened(self):
        """The view with the indexed axes merged into one at `target`."""
        moved = self.view.permute(self.order())
        sizes, count = moved.shape, len(self.axes)
        merged = int(numpy.prod(sizes[self.target:self.target + count]))
        return moved.reshape(sizes[:self.target] + (merged,) + sizes[self.target + count:])

    def result_shape(self):
        rest = [s for a, s in enumerate(self.view.shape) if a not in self.axes]
        return (*rest[:self.target], *self.shape, *rest[self.target:])


def get_item(self, index):
    """x[index]: a view for numbers, slices, None and Ellipsis; a copy for index arrays."""
    selection = _Selection(self, index)
    if not selection.places:
        return selection.view
    selected = select(selection.flattened(), selection.target, selection.rows())
    return selected.reshape(selection.result_shape())


def _broadcast_value(value, shape):
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value.select(0, 0)
    try:
        return value.expand(shape)
    except _binade.Error:
        raise ValueError(f"expected a value that broadcasts to {list(shape)}, "
                         f"found {list(value.shape)}") from None


def _write_places(selection, value):
    """Writes to the places that index arrays select."""
    target, count = selection.target, len(selection.shape)
    value = _broadcast_value(value, selection.result_shape())
    # The selected axes first, as rows.
    rest = [a for a in range(value.ndim) if not target <= a < target + count]
    values = value.permute([*range(target, target + count), *rest])
    flat = selection.flattened()
    axes_order = [target] + [a for a in range(flat.ndim) if a != target]
    by_row = flat.permute(axes_order)
    rows, values = last_of_each(
        selection.rows(), values.reshape((selection.rows().numel(),) + by_row.shape[1:]))
    if rows.numel() == 0:
        return
    written = put(by_row.contiguous(), rows, values.contiguous())
    back = written.permute([axes_order.index(a) for a in range(flat.ndim)])
    moved = selection.view.permute(selection.order())
    moved.copy_(back.reshape(moved.shape))


def _write(selection, value):
    if selection.places:
        _write_places(selection, value)
    else:
        selection.view.copy_(_broadcast_value(value, selection.view.shape))


def set_item(self, index, value):
    """x[index] = value in place."""
    check_writable("x[...] =", self)
    if not isinstance(value, Tensor):
        from ._creation import tensor
        if isinstance(value, (bool, int, float, numpy.generic)):
            value = checked("x[...] =", plain(value), self.dtype)
        value = (integer(value, "cpu") if is_wide(value) else tensor(value)).to(self.dtype).to(self.device)
    if is_recorded(self, value):
        return _write(_Selection(self, index), value.to(self.dtype))
    with _binade._no_grad():
        _write(_Selection(self.detach(), index), value.detach().to(self.dtype))
