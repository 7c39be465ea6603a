"""Optimizers over f32 master weights, with PyTorch's names and order of arguments."""

import contextlib

from .. import _binade
from .._binade import OneCycle, Schedule, Tensor  # noqa: F401

_F32 = _binade.f32


class _ParamGroup:
    """One group of parameters; "lr" can be read and set. "initial_lr" is the one that a scheduler
    began with."""

    def __init__(self, optimizer, place, params):
        self._optimizer, self._place, self._params = optimizer, place, params
        self._initial_lr = None

    def __getitem__(self, key):
        if key == "lr":
            return self._optimizer.lr(self._place)
        if key == "params":
            return self._params
        if key == "initial_lr":
            return self["lr"] if self._initial_lr is None else self._initial_lr
        raise KeyError(key)

    def begin_schedule(self):
        """The rate that schedules start from: the one in use when the first of them was made."""
        self._initial_lr = self["initial_lr"]
        return self._initial_lr

    def __setitem__(self, key, value):
        if key != "lr":
            raise KeyError(f"{key} is fixed; only lr can be set")
        self._optimizer.set_group_lr(self._place, value)

    def __repr__(self):
        return f"<group of {len(self._params)} parameters, lr={self['lr']}>"


def zero_gradients(parameters):
    """Zeros in the gradients that are there."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.zero_()


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
    """What all optimizers have. Parameters without a gradient are not updated.

    16-bit parameters have f32 master weights unless `master_weights` is False; then
    `stochastic_rounding` rounds their updates by chance, a function of `seed`. With "split", a bf16
    parameter is the upper half of its master weight, which takes 2 bytes less.
    """

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
        """Forgets gradients; the next backward overwrites their buffers. Without `set_to_none` they
        become zeros, with which step() updates, too."""
        if set_to_none:
            return self._native.zero_grad()
        zero_gradients(p for group in self.param_groups for p in group["params"])

    def set_lr(self, lr):
        """Sets every group's learning rate, scaled by the ratio it started with."""
        self._native.set_lr(lr)

    def set_momentum(self, momentum):
        """Sets the momentum of every group; beta1 of those that have betas."""
        self._native.set_momentum(momentum)

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

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0,
                 nesterov=False, *, master_weights=True, stochastic_rounding=False, seed=0):
        groups = _groups(params, dict(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
            nesterov=nesterov, master_weights=master_weights,
            stochastic_rounding=stochastic_rounding, seed=seed))
        super().__init__(_binade._make_optimizer("SGD", groups), groups)


def _adam_groups(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False,
                 moments=_F32, master_weights=True, stochastic_rounding=False, seed=0):
    return _groups(params, dict(
        lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, moments=moments,
        master_weights=master_weights, stochastic_rounding=stochastic_rounding, seed=seed))


class Adam(Optimizer):
    """Adam with the weight decay added to the gradient. `moments` as in AdamW."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
                 amsgrad=False, *, moments=_F32, master_weights=True, stochastic_rounding=False,
                 seed=0):
        groups = _adam_groups(params, lr, betas, eps, weight_decay, amsgrad, moments,
                              master_weights, stochastic_rounding, seed)
        super().__init__(_binade._make_optimizer("Adam", groups), groups)


class AdamW(Optimizer):
    """Adam with the weight decay applied to the weights themselves.

    `moments` is the dtype of both moments: f32, bf16, or u8 for 8-bit codes with a scale per 256
    elements (parameters of fewer than 4096 elements keep f32).

    >>> import binade as bn
    >>> w = bn.randn(64, 64, seed=0, requires_grad=True)
    >>> optimizer = bn.optim.AdamW([w], lr=1e-3, moments="u8")
    >>> w.sum().backward()
    >>> optimizer.step()
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2,
                 amsgrad=False, *, moments=_F32, master_weights=True, stochastic_rounding=False,
                 seed=0):
        groups = _adam_groups(params, lr, betas, eps, weight_decay, amsgrad, moments,
                              master_weights, stochastic_rounding, seed)
        super().__init__(_binade._make_optimizer("AdamW", groups), groups)


class RMSprop(Optimizer):
    """Steps divided by the root of a moving mean square of the gradient."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0,
                 centered=False, *, master_weights=True, stochastic_rounding=False, seed=0):
        groups = _groups(params, dict(
            lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum,
            centered=centered, master_weights=master_weights,
            stochastic_rounding=stochastic_rounding, seed=seed))
        super().__init__(_binade._make_optimizer("RMSprop", groups), groups)


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of squares of all gradients so far."""

    def __init__(self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0,
                 initial_accumulator_value=0.0, eps=1e-10, *, master_weights=True,
                 stochastic_rounding=False, seed=0):
        groups = _groups(params, dict(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps,
            master_weights=master_weights, stochastic_rounding=stochastic_rounding, seed=seed))
        super().__init__(_binade._make_optimizer("Adagrad", groups), groups)


class Lion(Optimizer):
    """Steps of size lr in the direction of the sign of a momentum, whose dtype is `moments`.

    It wants a learning rate 3 to 10 times smaller than AdamW's and a weight decay as much larger.
    """

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, moments=_F32,
                 master_weights=True, stochastic_rounding=False, seed=0):
        groups = _groups(params, dict(
            lr=lr, betas=betas, weight_decay=weight_decay, moments=moments,
            master_weights=master_weights, stochastic_rounding=stochastic_rounding, seed=seed))
        super().__init__(_binade._make_optimizer("Lion", groups), groups)


class NAdam(Optimizer):
    """Adam with Nesterov's momentum. `moments` is the dtype of both moments: f32 or bf16."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
                 momentum_decay=4e-3, decoupled_weight_decay=False, *, moments=_F32,
                 master_weights=True, stochastic_rounding=False, seed=0):
        groups = _groups(params, dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay, moments=moments,
            master_weights=master_weights, stochastic_rounding=stochastic_rounding, seed=seed))
        super().__init__(_binade._make_optimizer("NAdam", groups), groups)


class Adafactor(Optimizer):
    """Adam with the second moment of a matrix as the product of a column and a row."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0,
                 *, master_weights=True):
        groups = _groups(params, dict(
            lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
            master_weights=master_weights, stochastic_rounding=False, seed=0))
        super().__init__(_binade._make_optimizer("Adafactor", groups), groups)


class Muon(Optimizer):
    """Momentum of matrices made orthogonal; `adamw` are the parameters that AdamW updates.

    `params` are the matrices of hidden layers. Embeddings, heads, norms and biases belong in
    `adamw`: parameters, or groups with AdamW's options. Muon's groups come first in param_groups.

    >>> import binade as bn
    >>> layer = bn.nn.Linear(8, 4)
    >>> optimizer = bn.optim.Muon([layer.weight], lr=0.02, adamw=[{"params": [layer.bias], "lr": 1e-3}])
    >>> layer(bn.ones(2, 8)).sum().backward()
    >>> optimizer.step()
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.02, 0.001]
    """

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, ns_steps=5,
                 adjust_lr_fn="original", *, adamw=(), master_weights=True):
        groups = _groups(params, dict(
            lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
            ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn,
            master_weights=master_weights, stochastic_rounding=False, seed=0))
        adamw = list(adamw)
        others = _adam_groups(adamw, master_weights=master_weights) if adamw else []
        super().__init__(_binade._make_muon(groups, others), groups + others)


class ReduceOnPlateau:
    """Multiplies the learning rates by `factor` when a metric has stopped improving.

    >>> import binade as bn
    >>> optimizer = bn.optim.SGD([bn.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = bn.optim.ReduceOnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> optimizer.param_groups[0]["lr"]
    0.1
    """

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4,
                 threshold_mode="rel", cooldown=0, min_lr=0.0, eps=1e-8):
        self._native = _binade._ReduceOnPlateau(optimizer._native, mode, factor, patience,
                                                threshold, threshold_mode, cooldown, min_lr, eps)
        self._optimizer = optimizer

    def step(self, metric):
        """After each evaluation."""
        self._native.step(float(metric))

    @property
    def best(self):
        return self._native.best

    def get_last_lr(self):
        """The rates in use, one per group."""
        return [group["lr"] for group in self._optimizer.param_groups]

    def state_dict(self):
        return self._native.state_dict()

    def load_state_dict(self, state_dict):
        self._native.load_state_dict(state_dict)


class EMA:
    """Exponential moving averages of parameters, in f32.

    >>> import binade as bn
    >>> w = bn.zeros(1, requires_grad=True)
    >>> ema = bn.optim.EMA([w], decay=0.5)
    >>> ema.update()
    >>> w.data.fill_(1.0)
    tensor([1.])
    >>> ema.update()
    >>> with ema.applied():
    ...     w.item()
    0.5
    >>> w.item()
    1.0
    """

    def __init__(self, parameters, decay=0.999):
        self._native = _binade._EMA(list(parameters), decay)

    def update(self, optimizer=None):
        """After each step; with an optimizer from its master weights. The first call copies."""
        self._native.update(None if optimizer is None else optimizer._native)

    @property
    def updates(self):
        return self._native.updates

    def of(self, parameter):
        """The average of a parameter."""
        return self._native.of(parameter)

    @contextlib.contextmanager
    def applied(self):
        """In the with statement, the parameters have the averages' values."""
        with self._native.applied():
            yield self

    def state_dict(self):
        return self._native.state_dict()

    def load_state_dict(self, state_dict):
        self._native.load_state_dict(state_dict)


from . import lr_scheduler  # noqa: E402,F401  it needs the classes above
