"""NVIDIA GPUs, under PyTorch's names."""

from . import _binade


def device_count() -> int:
    """The number of GPUs that can be used; 0 in a build without CUDA."""
    return _binade._cuda_devices()


def is_available() -> bool:
    """Whether there is a GPU that can be used.

    >>> import binade as bn
    >>> device = "cuda" if bn.cuda.is_available() else "cpu"
    """
    return device_count() > 0


def synchronize(device="cuda") -> None:
    """Waits until a GPU has done what was asked of it."""
    _binade._synchronize(device)


def memory_allocated(device="cuda") -> int:
    """Bytes of tensors in use on a GPU."""
    return _binade.memory_allocated(device)


def max_memory_allocated(device="cuda") -> int:
    """The highest memory_allocated() since reset_peak_memory_stats()."""
    return _binade.max_memory_allocated(device)


def reset_peak_memory_stats(device="cuda") -> None:
    """Starts max_memory_allocated() anew."""
    _binade.reset_peak_memory_stats(device)
