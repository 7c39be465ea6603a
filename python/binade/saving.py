"""bn.save and bn.load: tensors, and numbers, texts and containers around them, in one file."""

import os
import pickle

from . import _binade

_MAGIC = b"BINADE1\n"

# What a file may hold besides containers, numbers and texts. Anything else could run code.
_ALLOWED = {("binade._methods", "_rebuild"), ("binade.nn.module", "Parameter"),
            ("collections", "OrderedDict"), ("builtins", "set"), ("builtins", "complex")}


class _Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in _ALLOWED:
            _binade._fail("load", argument="file", expected="tensors, numbers, texts and containers",
                          found=f"{module}.{name}",
                          hint="if you trust the file: load(path, weights_only=False)")
        return super().find_class(module, name)


def _moved(value, device):
    if isinstance(value, _binade.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return type(value)((k, _moved(v, device)) for k, v in value.items())
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_moved(v, device) for v in value)
    return value


def save(obj, f):
    """Writes a state_dict, a tensor or any object that can be pickled to a file; a file of this
    name is replaced at once, when the new one is complete.

    >>> import binade as bn, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "state.bn")
    >>> bn.save({"weight": bn.ones(2), "step": 3}, path)
    >>> bn.load(path)
    {'weight': tensor([1., 1.]), 'step': 3}
    """
    if hasattr(f, "write"):
        f.write(_MAGIC)
        pickle.dump(obj, f, protocol=4)
        return
    path = os.path.abspath(os.fspath(f))
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            save(obj, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def load(f, map_location=None, *, weights_only=True):
    """Reads what save() wrote. Unless `weights_only` is False, files with anything but tensors,
    numbers, texts and containers are refused, because they could run code."""
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return load(file, map_location, weights_only=weights_only)
    name = getattr(f, "name", "file")
    begin = f.read(len(_MAGIC))
    if begin != _MAGIC:
        _binade._fail("load", argument=str(name), expected="a file that binade.save wrote",
                      found=repr(begin[:8]), hint="load_safetensors reads .safetensors")
    try:
        value = _Reader(f).load() if weights_only else pickle.load(f)
    except (OSError, _binade.Error):
        raise
    except Exception as error:  # damaged bytes may stand for anything
        if not (weights_only or isinstance(error, (EOFError, pickle.UnpicklingError))):
            raise
        _binade._fail("load", argument=str(name), expected="a complete file",
                      found=f"{type(error).__name__}: {error}")
    return value if map_location is None else _moved(value, map_location)
