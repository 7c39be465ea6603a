"""What the golden scripts share: seeded inputs and a byte-stable safetensors writer."""

import json
import pathlib
import struct

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
MAX_BYTES = 1_500_000

# One thread and deterministic kernels: the same version gives the same bytes.
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


class Inputs:
    """Random inputs from numpy's PCG64, whose stream does not depend on the torch version."""

    def __init__(self, seed):
        self.rng = np.random.Generator(np.random.PCG64(seed))

    def normal(self, *shape, scale=1.0, shift=0.0):
        values = self.rng.standard_normal(shape) * scale + shift
        return torch.from_numpy(np.asarray(values, dtype=np.float32))

    def uniform(self, *shape, low=0.0, high=1.0):
        values = self.rng.uniform(low, high, shape)
        return torch.from_numpy(np.asarray(values, dtype=np.float32))

    def integers(self, *shape, high):
        return torch.from_numpy(self.rng.integers(0, high, shape, dtype=np.int64))


def compact(value):
    """JSON without spaces and without NaN or Infinity, which strict readers refuse."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)


def save(name, tensors, metadata):
    """Writes tests/golden/<name> and checks it by reading it back.

    Metadata values that are not strings are written as JSON. The safetensors package keeps
    metadata in a hash map of random order, so the header is written again with sorted keys.
    """
    path = HERE / name
    strings = {k: v if isinstance(v, str) else compact(v) for k, v in metadata.items()}
    tensors = {k: v.detach().contiguous() for k, v in tensors.items()}
    save_file(tensors, path, metadata=strings)
    _sort_metadata(path)
    _check(path, tensors, strings)
    print(f"{name}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def _sort_metadata(path):
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size :])
    path.chmod(0o644)


def _check(path, tensors, strings):
    assert path.stat().st_size < MAX_BYTES, f"{path.name} is too big"
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == strings
        assert set(file.keys()) == set(tensors)
        for key, want in tensors.items():
            got = file.get_tensor(key)
            assert got.dtype == want.dtype and got.shape == want.shape, key
            assert got.numpy().tobytes() == want.numpy().tobytes(), key
