"""Copies and pickles of modules of the engine: made again from their arguments, then loaded."""

import copy

from .. import _binade


def plain_argument(value):
    """An argument of the engine's constructor as it can be pickled."""
    if isinstance(value, (_binade.dtype, _binade.device)):
        return str(value).split(".")[-1]
    return value


def native_state(module):
    """What an engine's object is: how it was made, its tensors and which of them are trained."""
    if module._made is None:
        raise TypeError(f"this {type(module).__name__} was loaded from a folder and cannot be "
                        "pickled: use save_pretrained()")
    native = module._native
    parameters = dict(native.named_parameters())
    first = next(iter(parameters.values()), None)
    return {"made": module._made, "tensors": {n: t.detach() for n, t in native.state_dict().items()},
            "trained": [n for n, t in parameters.items() if t.requires_grad],
            "placed": None if first is None else (first.dtype.name, str(first.device))}


def _fill(native, state):
    if state["placed"] is not None:
        native.to_dtype(state["placed"][0])
        native.to_device(state["placed"][1])
    native.load_state_dict(state["tensors"], True)
    for name, tensor in native.named_parameters():
        tensor.requires_grad = name in state["trained"]
    return native


def native_from(state):
    """The engine's object that native_state() describes."""
    kind, arguments = state["made"]
    with _binade._without_values():
        native = getattr(_binade, kind)(*arguments)
    return _fill(native, state)


def copy_native(module):
    """Another object of the engine with the same values."""
    if not hasattr(module._native, "model_like"):
        return native_from(native_state(module))
    with _binade._without_values():
        native = module._native.model_like()
    trained = [n for n, t in module._native.named_parameters() if t.requires_grad]
    tensors = {n: t.detach() for n, t in module._native.state_dict().items()}
    return _fill(native, {"placed": None, "tensors": tensors, "trained": trained})


def deep_copy(module, memo):
    """A module with copies of all it holds. Weights that layers share are shared by the copies."""
    new = type(module).__new__(type(module))
    memo[id(module)] = new
    for name, value in module.__dict__.items():
        copied = copy_native(module) if name == "_native" else copy.deepcopy(value, memo)
        object.__setattr__(new, name, copied)
    if module._native is not None:
        new._native.train(new.training)
    _share_again(module, new)
    return new


def _share_again(module, new):
    first = {}
    for old, copied in zip(module.modules(), new.modules()):
        for name in ("weight", "bias"):
            tensor = None if old._native is None else getattr(old._native, name, None)
            if tensor is None:
                continue
            key = (tensor.data_ptr(), tensor.shape)
            if key in first:
                setattr(copied._native, name, first[key])
            else:
                first[key] = getattr(copied._native, name)
