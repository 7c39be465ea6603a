"""Optimizers over f32 master weights, with PyTorch's names and order of arguments."""

from . import _binade
from ._binade import Schedule, Tensor  # noqa: F401

_F32 = _binade.f32


class _ParamGroup:
    """One group of parameters; "lr" can be read and set."""

    def __init__(self, optimizer, place, params):
        self._optimizer, self._place, self._params = optimizer, place, params

    def __getitem__(self, key):
        if key == "lr":
            return self._optimizer.lr(self._place)
        if key == "params":
            return self._params
        raise KeyError(key)

    def __setitem__(self, key, value):
        if key != "lr":
            raise KeyError(f"{key} is fixed; only lr can be set")
        self._optimizer.set_group_lr(self._place, value)

    def __repr__(self):
        return f"<group of {len(self._params)} parameters, lr={self['lr']}>"


def _groups(params, defaults):
    """Parameters, or dictionaries with "params" and options, as a list of dictionaries."""
    params = list(params)
    if not params or not isinstance(params[0], dict):
        params = [{"params": params}]
    groups = []
    for given in params:
        given = {**defaults, **given}
        tensors = given.pop("params")
        unknown = set(given) - set(defaults)
        if unknown:
            raise TypeError(f"unknown options of a parameter group: {sorted(unknown)}")
        groups.append(([tensors] if isinstance(tensors, Tensor) else list(tensors), given))
    return groups


class Optimizer:
    """What all optimizers have. Parameters without a gradient are not updated."""

    def __init__(self, native, groups):
        self._native = native
        self.param_groups = [_ParamGroup(native, i, tensors)
                             for i, (tensors, _) in enumerate(groups)]

    def step(self, closure=None):
        """One update; `closure` computes the loss first, and is returned."""
        loss = None if closure is None else closure()
        self._native.step()
        return loss

    def zero_grad(self, set_to_none=True):
        """Forgets gradients; the next backward overwrites their buffers."""
        self._native.zero_grad()

    def set_lr(self, lr):
        """Sets every group's learning rate, scaled by the ratio it started with."""
        self._native.set_lr(lr)

    def master_of(self, parameter):
        """The f32 tensor that an update of `parameter` changes."""
        return self._native.master_of(parameter)

    def state_dict(self):
        return self._native.state_dict()

    def load_state_dict(self, state_dict):
        self._native.load_state_dict(state_dict)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    >>> import binade as bn
    >>> w = bn.tensor([1.0], requires_grad=True)
    >>> optimizer = bn.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> round(w.item(), 6)
    0.8
    """

    def __init__(self, params, lr=1e-2, momentum=0.0, dampening=0.0, weight_decay=0.0,
                 nesterov=False, *, master_weights=True, stochastic_rounding=False, seed=0):
        defaults = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                        nesterov=nesterov)
        groups = _groups(params, defaults)
        super().__init__(_binade._SGD([
            _binade._SgdGroup(tensors, o["lr"], o["momentum"], o["dampening"], o["weight_decay"],
                              o["nesterov"], master_weights, stochastic_rounding, seed)
            for tensors, o in groups]), groups)


class _AdamBase(Optimizer):
    _native_class = None

    def __init__(self, params, lr, betas, eps, weight_decay, moments, master_weights,
                 stochastic_rounding, seed):
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        groups = _groups(params, defaults)
        super().__init__(self._native_class([
            _binade._AdamGroup(tensors, o["lr"], tuple(o["betas"]), o["eps"], o["weight_decay"],
                               moments, master_weights, stochastic_rounding, seed)
            for tensors, o in groups]), groups)


class Adam(_AdamBase):
    """Adam with the weight decay added to the gradient."""

    _native_class = _binade._Adam

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, *,
                 moments=_F32, master_weights=True, stochastic_rounding=False, seed=0):
        super().__init__(params, lr, betas, eps, weight_decay, moments, master_weights,
                         stochastic_rounding, seed)


class AdamW(_AdamBase):
    """Adam with the weight decay applied to the weights themselves."""

    _native_class = _binade._AdamW

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *,
                 moments=_F32, master_weights=True, stochastic_rounding=False, seed=0):
        super().__init__(params, lr, betas, eps, weight_decay, moments, master_weights,
                         stochastic_rounding, seed)
