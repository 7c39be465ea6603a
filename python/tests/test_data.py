import os
import subprocess
import sys

import binade as bn
import numpy as np
import pytest


class Squares:
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return np.full(3, index, np.float32), index * index


def batches(loader):
    return [[part.tolist() for part in batch] for batch in loader]


def test_batches_in_order():
    loader = bn.data.DataLoader(Squares(), batch_size=4)
    assert len(loader) == 3
    numbers, squares = next(iter(bn.data.DataLoader(Squares(), 4)))
    assert numbers.shape == (4, 3) and squares.tolist() == [0, 1, 4, 9]
    assert [len(b[1]) for b in batches(loader)] == [4, 4, 2]
    assert len(batches(bn.data.DataLoader(Squares(), 4, drop_last=True))) == 2


def test_workers_change_nothing():
    epochs = []
    for workers in (0, 3):
        loader = bn.data.DataLoader(Squares(), 4, shuffle=True, seed=1, num_workers=workers)
        epochs.append([batches(loader), batches(loader)])
    assert epochs[0] == epochs[1] and epochs[0][0] != epochs[0][1]


def test_a_position_continues_a_run():
    loader = bn.data.DataLoader(Squares(), 2, shuffle=True)
    iterator = iter(loader)
    next(iterator), next(iterator)
    assert loader.position() == (0, 2)
    other = bn.data.DataLoader(Squares(), 2, shuffle=True)
    other.seek(loader.position())
    assert batches(other) == batches(loader)


def test_arrays_and_custom_batches():
    loader = bn.data.DataLoader(np.arange(6, dtype=np.float32).reshape(3, 2), 2)
    assert [b.tolist() for b in loader] == [[[0, 1], [2, 3]], [[4, 5]]]
    loader = bn.data.DataLoader([bn.ones(2), bn.ones(3)], 2,
                                collate_fn=lambda items: bn.cat(items))
    assert [b.shape for b in loader] == [(5,)]


@pytest.mark.parametrize("workers", [0, 2])
def test_exceptions_of_the_dataset(workers):
    class Broken(Squares):
        def __getitem__(self, index):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        next(iter(bn.data.DataLoader(Broken(), 4, num_workers=workers)))


def test_a_loader_that_is_dropped_ends_its_workers():
    def threads_after_a_loader(workers):
        loader = bn.data.DataLoader(Squares(), 1, num_workers=workers)
        next(iter(loader))
        del loader
        return len(os.listdir("/proc/self/task"))

    assert threads_after_a_loader(3) == threads_after_a_loader(3) == threads_after_a_loader(0)


def test_a_program_ends_while_workers_read():
    program = """
import time, binade as bn
class Slow:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        time.sleep(0.02)
        return index
loader = bn.data.DataLoader(Slow(), num_workers=2)
print(next(iter(loader)).item())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
