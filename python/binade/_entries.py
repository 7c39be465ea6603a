"""Entries of tensors by index. The engine's ops, which have gradients, are those of floats; other
types, which have none, are read and written through NumPy."""

import numpy

from . import _binade


def _is_plain(x):
    return not x.dtype.is_floating_point and x.device == "cpu"


def _from_array(array, like):
    new = _binade.empty(array.shape, like.dtype)
    new.numpy()[...] = array
    return new


def select(x, axis, rows):
    """x with an axis replaced by the entries that a 1-D index selects."""
    if not _is_plain(x):
        return x.index_select(axis, rows)
    return _from_array(x.numpy().take(rows.cpu().numpy(), axis), x)


def put(x, rows, values):
    """x with the rows of a 1-D index, which does not repeat, replaced by values."""
    if not _is_plain(x):
        return _binade.index_put(x, rows, values)
    array = x.numpy().copy()
    array[rows.cpu().numpy()] = values.cpu().numpy()
    return _from_array(array, x)


def last_of_each(rows, values):
    """Rows without repetitions: the last value written to a row stays."""
    numbers = rows.cpu().numpy()
    _, from_the_end = numpy.unique(numbers[::-1], return_index=True)
    if len(from_the_end) == len(numbers):
        return rows, values
    kept = numpy.sort(len(numbers) - 1 - from_the_end)
    kept = _binade._integers(kept.tolist(), (len(kept),), "cpu").to(rows.device)
    return select(rows, 0, kept), select(values, 0, kept)
