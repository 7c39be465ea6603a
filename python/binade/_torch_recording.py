"""What a torch model computes, op by op, in a file that `binade diff` compares. Needs torch."""

import json
import os
import sys

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from . import _binade
from ._creation import from_dlpack

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
# Their results have their inputs' values, in another order or type.
_REARRANGING = {"clone", "contiguous", "detach", "double", "flatten", "float", "permute", "reshape", "to",
                "transpose", "type", "type_as", "view"}
_VIEWS = {"T", "mT", "H", "mH", "data"}
_WRAPPERS = ("module.", "_orig_mod.")
_SAMPLED = 32  # elements of a weight
_CHUNK = 1 << 20


def _name_of(path):
    """A path without the names that wrappers (DataParallel, torch.compile) put before it."""
    for wrapper in _WRAPPERS:
        while path.startswith(wrapper):
            path = path[len(wrapper):]
    return path


def _is_float(x):
    return isinstance(x, torch.Tensor) and x.layout == torch.strided and x.dtype in _FLOATS


def _version(x):
    return 0 if x.is_inference() else x._version


def _tensors(value):
    """The tensors in arguments or results, without those deeper than two containers."""
    found, level = [], [value]
    for _ in range(4):
        deeper = []
        for one in level:
            if isinstance(one, torch.Tensor):
                found.append(one)
            elif isinstance(one, dict):
                deeper += one.values()
            elif isinstance(one, (list, tuple)):
                deeper += one
        level = deeper
    return found


def _on_host(x):
    x = x.detach()
    return x.contiguous().clone() if x.device.type == "cpu" else x.cpu().contiguous()


def _checksum(x):
    """A sum, modulo 2^64, of the elements' bits, each times an odd number by its index."""
    bits = x.contiguous().view(-1).view(_BITS[x.element_size()]).numpy()
    bits = bits.view(f"u{x.element_size()}")
    total = 0
    for begin in range(0, bits.size, _CHUNK):
        part = bits[begin:begin + _CHUNK].astype(np.uint64)
        odd = 2 * np.arange(begin, begin + part.size, dtype=np.uint64) + np.uint64(1)
        total += int(((part + np.uint64(1)) * odd).sum(dtype=np.uint64))
    return f"{total % 2**64:016x}"


def _is_random(name, args, kwargs):
    """Whether a call drops elements at random."""
    def argument(index, key, default):
        return args[index] if len(args) > index else kwargs.get(key, default)

    if name == "scaled_dot_product_attention":
        return argument(4, "dropout_p", 0.0) > 0
    return "dropout" in name and argument(1, "p", 0.5) > 0 and bool(argument(2, "training", True))


def _caller():
    """The innermost function that is neither torch's nor this module's, and its file and line."""
    frame = sys._getframe(1)
    own = (os.path.dirname(torch.__file__) + os.sep, __file__)
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    if frame is None:
        return "", ""
    return frame.f_code.co_name, f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


class _Ops(TorchFunctionMode):
    def __init__(self, recording):
        super().__init__()
        self.recording = recording

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.recording._after_op(func, args, kwargs or {}, result)
        return result


class record:
    """Records what a torch model computes inside `with`, for `binade diff MODEL FILE`.

    with record(model, "theirs.safetensors", targets=rows[:, 1:]):
        logits = model(rows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()

    The file gets the tokens, results of modules and of the functions in them with the loss's
    gradients, checksums and samples of the parameters, and their gradients. One forward and at most
    one backward; `tokens` are taken from the model's call, and `targets` from its `labels`, unless
    they are given. Without `ops` only results of modules are kept. Tensors of more than `largest`
    elements are left out.
    """

    def __init__(self, model, path, *, tokens=None, targets=None, ops=True, gradients=True, largest=1 << 26):
        self._model, self._path = model, os.fspath(path)
        self._tokens, self._targets = tokens, targets
        self._ops, self._gradients, self._largest = ops, gradients, largest
        self._records, self._values, self._seen = [], {}, WeakIdKeyDictionary()
        self._stack, self._hooks, self._random, self._skipped = [], [], [], []
        self._busy = False
        self._mode = _Ops(self)

    def __enter__(self):
        if any(p.grad is not None and bool(p.grad.any()) for p in self._model.parameters()):
            _binade._fail("record", argument="model", expected="parameters without gradients",
                          found="gradients of an earlier backward", hint="call model.zero_grad() first")
        self._state = {id(x) for x in (*self._model.parameters(), *self._model.buffers())}
        for path, module in self._model.named_modules():
            name = _name_of(path)
            self._hooks += [
                module.register_forward_pre_hook(self._before(name), with_kwargs=True),
                module.register_forward_hook(self._after(name), with_kwargs=True, always_call=True)]
        self._mode.__enter__()
        return self

    def __exit__(self, kind, error, trace):
        self._mode.__exit__(kind, error, trace)
        for hook in self._hooks:
            hook.remove()
        if kind is None:
            self._save()

    def _observes(self):
        # A forward inside a backward repeats what was seen: activation checkpointing.
        return not self._busy and torch._C._current_graph_task_id() == -1

    def _before(self, name):
        def hook(module, args, kwargs):
            if not self._observes():
                return
            if not self._stack:
                self._take_batch(args, kwargs)
            self._stack.append(name)
            self._quietly(lambda: [self._index(x, "input") for x in _tensors((args, kwargs))])
        return hook

    def _after(self, name):
        def hook(module, args, kwargs, output):
            if not self._observes() or not self._stack:
                return

            def note():
                for x in _tensors(output):
                    index = self._index(x, "output")
                    if index is not None:
                        self._records[index]["outputs"].append(name)
            self._quietly(note)
            self._stack.pop()
        return hook

    def _take_batch(self, args, kwargs):
        given = [kwargs.get("input_ids"), *args, *kwargs.values()]
        ids = [x for x in given if isinstance(x, torch.Tensor) and x.ndim == 2 and not x.is_floating_point()]
        if self._tokens is None and ids:
            self._tokens = ids[0]
        labels = kwargs.get("labels")
        if self._targets is None and labels is not None:  # transformers shifts them itself
            self._targets = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=-100)

    def _quietly(self, do):
        self._busy = True
        try:
            return do()
        finally:
            self._busy = False

    def _after_op(self, func, args, kwargs, result):
        if self._observes() and self._stack_or_loss(result):
            self._quietly(lambda: self._see(func, args, kwargs, result))

    def _stack_or_loss(self, result):
        # Outside of modules, what comes after the forward: the loss.
        return bool(self._stack) or bool(self._records)

    def _see(self, func, args, kwargs, result):
        name = getattr(func, "__name__", "op")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
            if name not in _VIEWS:
                return
        inputs = [x for x in _tensors((args, kwargs)) if _is_float(x)]
        if _is_random(name, args, kwargs):
            self._random.append(self._stack[-1] if self._stack else name)
        sources = [self._index(x, "input") for x in inputs]
        sources = sorted({i for i in sources if i is not None})
        for x in _tensors(result):
            if not _is_float(x) or id(x) in self._state:
                continue
            base = self._rearranged(name, x, inputs)
            if base is not None:
                self._seen[x] = base, _version(x)
            elif self._ops or not self._stack:
                self._add(x, name.strip("_"), sources)

    def _rearranged(self, name, x, inputs):
        """The record of the tensor whose elements x has, if it has all of them unchanged."""
        for source in inputs:
            index = self._known(source)
            if index is None:
                continue
            same = x.dtype == source.dtype and x.numel() >= source.numel() and \
                x.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()
            copied = name in _REARRANGING and x.numel() == source.numel() and \
                torch.promote_types(x.dtype, source.dtype) == x.dtype
            if same or copied:
                return index
        return None

    def _index(self, x, op):
        """The record of a tensor, made now if no op that was seen has computed it."""
        if not _is_float(x) or id(x) in self._state:
            return None
        index = self._known(x)
        return self._add(x, op, []) if index is None else index

    def _known(self, x):
        """The record of a tensor, if it has been seen and not been written to since."""
        index, version = self._seen.get(x, (None, None))
        return index if version == _version(x) else None

    def _add(self, x, op, sources):
        index, module = len(self._records), self._stack[-1] if self._stack else ""
        function, line = _caller()
        if line.startswith("<frozen importlib") or x.numel() == 0:  # torch loads a part of itself
            return None
        self._records.append({"module": module, "op": op, "function": function, "line": line,
                              "outputs": [], "from": sources})
        self._seen[x] = index, _version(x)
        name = f"{index:05d}/{module or '-'}/{op}"
        if x.numel() > self._largest:
            self._skipped.append(name)
            return index
        self._values["value/" + name] = _on_host(x)
        if self._gradients and x.requires_grad and not x.is_leaf:
            self._records[index]["no_gradient"] = True  # until there is one

            def keep(gradient):
                if _is_float(gradient):
                    self._records[index]["no_gradient"] = False
                    self._values["gradient/" + name] = _on_host(gradient)
            x.register_hook(keep)
        return index

    def _add_parameters(self):
        weights = {}
        for path, parameter in self._model.named_parameters(remove_duplicate=False):
            name = _name_of(path)
            if not _is_float(parameter):
                self._skipped.append("weight/" + name)
                continue
            host = _on_host(parameter)
            weights[name] = {"shape": list(host.shape), "checksum": _checksum(host)}
            flat = host.view(-1)
            count = min(flat.numel(), _SAMPLED)
            self._values["weight/" + name] = flat[torch.arange(count) * flat.numel() // max(count, 1)]
            if self._gradients and parameter.grad is not None and _is_float(parameter.grad):
                self._values["parameter/" + name] = _on_host(parameter.grad)
            elif self._gradients and parameter.requires_grad:
                weights[name]["no_gradient"] = True
        return weights

    def _save(self):
        if self._tokens is None or not self._records:
            _binade._fail("record", argument="model", expected="a call on token ids inside `with`",
                          found="none", hint="run the model inside `with`, or give tokens=")
        weights = self._add_parameters()
        self._values["tokens"] = self._tokens.detach().cpu().long().contiguous()
        if self._targets is not None:
            self._values["targets"] = self._targets.detach().cpu().long().contiguous()
        facts = {"model": type(self._model).__name__, "torch": torch.__version__,
                 "records": [{k: v for k, v in one.items() if v} for one in self._records],
                 "weights": weights,
                 "random": sorted(set(self._random)), "skipped": self._skipped}
        metadata = {key: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
                    for key, value in facts.items()}
        tensors = {name: from_dlpack(x) for name, x in self._values.items()}
        _binade.save_safetensors(self._path, tensors, {"binade_recording": "1", **metadata})
