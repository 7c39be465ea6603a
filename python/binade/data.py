"""Batches of a dataset: the same order and content for any number of workers."""

import atexit
import weakref

from . import _binade
from ._creation import asarray, randperm

_loaders = weakref.WeakSet()


@atexit.register
def _end_workers():
    """Ends all workers: a thread that wants the GIL once Python has ended aborts the process."""
    for loader in list(_loaders):
        del loader._native


class Dataset:
    """A base for datasets; any object with len() and indices is one, too."""

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__()")

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __len__()")


class TensorDataset(Dataset):
    """Tensors of equal length; an item is a tuple with an entry of each.

    >>> import binade as bn
    >>> data = bn.data.TensorDataset(bn.arange(4), bn.arange(4) * 10)
    >>> data[2]
    (tensor(2, dtype=i64), tensor(20, dtype=i64))
    """

    def __init__(self, *tensors):
        if len({len(tensor) for tensor in tensors}) != 1:
            _binade._fail("TensorDataset", argument="tensors", expected="tensors of one length",
                          found=str([len(tensor) for tensor in tensors]))
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class Subset(Dataset):
    """The items of a dataset at some indices."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, [int(i) for i in indices]

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, *, seed=None):
    """Subsets of these lengths, of items in random order; fractions of 1 are lengths, too.

    >>> import binade as bn
    >>> [len(part) for part in bn.data.random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    if abs(sum(lengths) - 1) < 1e-6 and all(0 <= part <= 1 for part in lengths):
        lengths = [int(len(dataset) * part) for part in lengths]
        for extra in range(len(dataset) - sum(lengths)):
            lengths[extra % len(lengths)] += 1
    if sum(lengths) != len(dataset):
        _binade._fail("random_split", argument="lengths", expected=f"a sum of {len(dataset)}",
                      found=str(sum(lengths)))
    order = randperm(len(dataset), seed=seed).tolist()
    ends = [sum(lengths[:i + 1]) for i in range(len(lengths))]
    return [Subset(dataset, order[end - length:end]) for length, end in zip(lengths, ends)]


class DataLoader:
    """Batches of a dataset, which has len() and indices: a list, an array, a torch dataset.

    An item is an array or a number, or a tuple of these, which become tensors. Workers are threads:
    they help where items are read or computed without the GIL. A loop runs over one epoch; the
    order is a function of `seed` and the epoch. A loop that was left early is continued by the
    next one; position() and seek() continue another run.

    >>> import binade as bn
    >>> data = [(float(i), i % 2) for i in range(5)]
    >>> for x, label in bn.data.DataLoader(data, batch_size=2):
    ...     print(x.tolist(), label.tolist())
    [0.0, 1.0] [0, 1]
    [2.0, 3.0] [0, 1]
    [4.0] [0]
    """

    def __init__(self, dataset, batch_size=1, shuffle=False, *, num_workers=0, collate_fn=None,
                 drop_last=False, seed=0, prefetch_factor=2):
        self.dataset, self.batch_size = dataset, batch_size
        single = []  # whether items are no tuples, once one was read

        def get(index):
            item = dataset[index]
            if not single:
                single.append(not isinstance(item, (tuple, list)))
            return [asarray(item)] if single[0] else [asarray(part) for part in item]

        def collate(samples):
            batch = collate_fn([sample[0] if single[0] else tuple(sample) for sample in samples])
            return [asarray(b) for b in (batch if isinstance(batch, (tuple, list)) else [batch])]

        self._single = single
        self._native = _binade._DataLoader(
            len(dataset), get, None if collate_fn is None else collate, batch_size, shuffle, seed,
            drop_last, num_workers, prefetch_factor)
        _loaders.add(self)

    def __len__(self):
        """Batches per epoch."""
        return self._native.size()

    def __iter__(self):
        while (batch := self._native.next()) is not None:
            yield batch[0] if self._single[0] and len(batch) == 1 else tuple(batch)

    def position(self):
        """(epoch, batches of it that were returned)."""
        return self._native.position()

    def seek(self, position):
        """Continues from a position."""
        self._native.seek(*position)
