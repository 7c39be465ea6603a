"""Batches of a dataset: the same order and content for any number of workers."""

import atexit
import weakref

from . import _binade
from ._creation import asarray

_loaders = weakref.WeakSet()


@atexit.register
def _end_workers():
    """Ends all workers: a thread that wants the GIL once Python has ended aborts the process."""
    for loader in list(_loaders):
        del loader._native


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
