"""Mixed precision with PyTorch's names: autocast and GradScaler; quantized training by recipe;
explain."""

import contextlib
import functools
import threading

from . import _binade
from ._binade import (  # noqa: F401
    Policy, Recipe, StepReport, Tensor, get_autocast_dtype, is_autocast_enabled)

_thread = threading.local()


@contextlib.contextmanager
def _in_f32():
    """Disables every autocast opened inside: how a diagnosis replays a step in f32."""
    before = getattr(_thread, "f32", False)
    _thread.f32 = True
    try:
        yield
    finally:
        _thread.f32 = before


class _Scoped(contextlib.ContextDecorator):
    """A context manager over a setting of the thread, which may be entered again."""

    def __init__(self):
        self._open = []

    def _make(self, enabled):
        raise NotImplementedError

    def __enter__(self):
        scope = self._make(not getattr(_thread, "f32", False))
        scope.__enter__()
        self._open.append(scope)
        return self

    def __exit__(self, *error):
        self._open.pop().__exit__(*error)
        return False


class autocast(_Scoped):
    """Ops inside run in the precision that the policy gives them.

    `device_type` chooses the default dtype: f16 for "cuda", bf16 for "cpu".

    >>> import binade as bn
    >>> a = bn.ones(2, 2)
    >>> with bn.amp.autocast("cpu", dtype=bn.bfloat16):
    ...     y = a @ a
    ...     z = bn.exp(y)
    >>> y.dtype, z.dtype
    (binade.bf16, binade.f32)
    """

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None, *,
                 policy=None):
        super().__init__()
        kind = str(device_type).split(":")[0]
        if kind not in ("cpu", "cuda"):
            _binade._fail("autocast", argument="device_type", expected="cpu or cuda",
                          found=repr(device_type))
        if dtype is None:
            dtype = _binade.f16 if kind == "cuda" else _binade.bf16
        dtype = _binade.dtype(dtype)
        if enabled and dtype not in (_binade.f16, _binade.bf16):
            _binade._fail("autocast", argument="dtype", expected="f16 or bf16", found=dtype.name)
        self._dtype, self._enabled, self._policy = dtype, enabled, policy

    def _make(self, enabled):
        return _binade._autocast(self._dtype, self._enabled and enabled, self._policy)


class matmul_precision(_Scoped):
    """f32 matmuls inside run as "highest" (f32) or "high" (TF32 operands)."""

    def __init__(self, precision):
        super().__init__()
        self._precision = precision
        self._make(True)  # refuses an unknown name here, not where it is entered

    def _make(self, enabled):
        return _binade._matmul_precision(self._precision if enabled else "highest")


class quantized_autocast(_Scoped):
    """Linear layers inside run by a recipe: a Recipe or its text.

    >>> import binade as bn
    >>> layer = bn.nn.Linear(32, 32)
    >>> with bn.amp.quantized_autocast("delayed, history = 4"):
    ...     y = layer(bn.ones(4, 32))
    >>> y.shape
    (4, 32)
    >>> bn.amp.Recipe("delayed, history = 16")
    Recipe('delayed')
    """

    def __init__(self, recipe="delayed", enabled=True):
        super().__init__()
        self._recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
        self._enabled = enabled

    def _make(self, enabled):
        return _binade._quantized_autocast(self._enabled and enabled, self._recipe)


class fp8_autocast(quantized_autocast):
    """quantized_autocast with the arguments of Transformer Engine's function of this name."""

    def __init__(self, enabled=True, fp8_recipe=None):
        super().__init__("delayed" if fp8_recipe is None else fp8_recipe, enabled)


_warning_function = None


def set_warning_function(function):
    """Replaces the function that receives warnings about a use of mixed precision that cannot be
    meant, each kind once per scaler; returns the one before. None: they are printed to stderr.

    >>> texts = []
    >>> set_warning_function(texts.append)
    >>> set_warning_function(None) == texts.append
    True
    """
    global _warning_function
    before, _warning_function = _warning_function, function
    _binade._pass_warnings(function is not None)
    return before


class GradScaler:
    """Dynamic loss scaling, with PyTorch's methods and their order.

    >>> import binade as bn
    >>> w = bn.ones(2, requires_grad=True)
    >>> optimizer = bn.optim.SGD([w], lr=0.5)
    >>> scaler = bn.amp.GradScaler(init_scale=1024.0)
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.step(optimizer).applied
    True
    >>> scaler.update()
    >>> w.tolist()
    [0.0, 0.0]
    """

    def __init__(self, device="cpu", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5,
                 growth_interval=2000, enabled=True, *, hysteresis=1, minimum_scale=0.0,
                 skip_budget=0, retest_after=0):
        self._native = _binade._GradScaler(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled,
            hysteresis, minimum_scale, skip_budget, retest_after)
        self._set_factors({"growth_factor": growth_factor, "backoff_factor": backoff_factor,
                           "growth_interval": growth_interval})

    def _set_factors(self, state):
        self._growth_factor, self._backoff_factor = state["growth_factor"], state["backoff_factor"]
        self._growth_interval = int(state["growth_interval"])

    def scale(self, outputs):
        """Multiplies a loss, or each of several, by the scale."""
        if isinstance(outputs, Tensor):
            return self._native.scale(outputs)
        scaled = [self.scale(output) for output in outputs]
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def unscale_(self, optimizer):
        """Divides the optimizer's gradients by the scale: before clipping."""
        self._native.unscale_(optimizer._native)

    def step(self, optimizer, *, gradient_factor=None):
        """Updates the parameters, or skips the update if a gradient is non-finite."""
        return self._native.step(optimizer._native, gradient_factor)

    def update(self, new_scale=None):
        """Ends an iteration and adapts the scale."""
        if new_scale is None:
            self._native.update()
        else:
            self._native.update(float(new_scale))

    def get_scale(self):
        return self._native.get_scale()

    def get_growth_factor(self):
        return self._growth_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def get_growth_interval(self):
        return self._growth_interval

    def is_enabled(self):
        return self._native.is_enabled()

    def state_dict(self):
        return self._native.state_dict()

    def load_state_dict(self, state_dict):
        self._native.load_state_dict(state_dict)
        if self.is_enabled():
            self._set_factors(self._native.state_dict())


def custom_fwd(fwd=None, *, device_type="cpu", cast_inputs=None):
    """Decorates the forward of an autograd.Function: with `cast_inputs`, tensors are converted to
    that dtype under autocast and the function runs with autocast disabled."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    if cast_inputs is not None:
        wide = _binade.dtype(cast_inputs) == _binade.f32
        fwd._binade_cast = "f32" if wide else "lower"
    return fwd


def custom_bwd(bwd=None, *, device_type="cpu"):
    """Decorates the backward of an autograd.Function; Binade runs every backward with the autocast
    state of its forward."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


class TracedOp:
    """One op that ran: its name, module, dtypes and casts."""

    def __init__(self, op, module, inputs, compute, outputs, casts, backward):
        self.op, self.module = op, module
        self.inputs, self.compute, self.outputs = inputs, compute, outputs
        self.casts, self.backward = casts, backward

    def __repr__(self):
        direction = "backward of " if self.backward else ""
        return f"<{direction}{self.op} {self.inputs} -> {self.outputs}>"


class Trace(list):
    """The ops of a program in order; str() is an aligned table."""

    def __init__(self, ops, text):
        super().__init__(TracedOp(*op) for op in ops)
        self._text = text

    def __str__(self):
        return self._text


def explain(program):
    """Runs `program()` and returns every op with the casts it needed.

    >>> import binade as bn
    >>> def program():
    ...     with bn.amp.autocast("cpu", dtype=bn.bfloat16):
    ...         bn.ones(2, 2) @ bn.ones(2, 2)
    >>> [(op.op, len(op.casts)) for op in bn.amp.explain(program)]
    [('matmul', 2)]
    """
    return Trace(*_binade._explain(program))


def ops():
    """Every op with its class under autocast."""
    return dict(_binade._ops())
