"""Values that occur, and where values would stand in order, with PyTorch's arguments."""

from . import _binade
from ._binade import Tensor
from ._creation import tensor


def _chosen(values, inverse, counts):
    """The values alone, or a tuple of them and of what was asked for."""
    results = [x for x in (values, inverse, counts) if x is not None]
    return results[0] if len(results) == 1 else tuple(results)


def _require_flat(op, dim):
    if dim is not None:
        _binade._fail(op, argument="dim", expected="None: the values of the flattened input",
                      found=str(dim), hint="numpy.unique(x.numpy(), axis=dim) compares slices")


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different values in ascending order; `return_inverse`: also where each element is among
    them; `return_counts`: also how often each occurs.

    >>> import binade as bn
    >>> bn.unique(bn.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3], dtype=i64), tensor([1, 2], dtype=i64))
    """
    _require_flat("unique", dim)
    return _chosen(*_binade._unique(input, return_inverse, return_counts))


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """One value for each run of equal elements of the flattened input; options as of unique()."""
    _require_flat("unique_consecutive", dim)
    return _chosen(*_binade._unique_consecutive(input, return_inverse, return_counts))


def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None,
                 sorter=None) -> Tensor:
    """For each value the index before which it keeps `sorted_sequence`, a line or one for each row
    of values, in order; `right` or `side="right"`: after elements equal to it.

    >>> import binade as bn
    >>> bn.searchsorted(bn.tensor([1.0, 3.0, 5.0]), bn.tensor([3.0, 9.0]))
    tensor([1, 3], dtype=i64)
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        _binade._fail("searchsorted", argument="side",
                      expected="'right'" if right else "'left' or 'right'", found=repr(side))
    if sorter is not None:
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    values = input if isinstance(input, Tensor) else tensor(input)
    found = _binade._searchsorted(sorted_sequence, values, right or side == "right")
    return found.to(_binade.i32) if out_int32 else found


def bucketize(input, boundaries, *, out_int32=False, right=False) -> Tensor:
    """The bucket between `boundaries`, a line in ascending order, that holds each value."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
