"""Autograd: switching it off, gradients as values, and differentiable functions in Python."""

import contextlib
import functools
import inspect

from . import _binade
from ._binade import Tensor, is_grad_enabled  # noqa: F401


def _running_in(mode, generator):
    """The generator's values: `mode` is in force while it runs, and not where they are used."""
    resume, given = generator.send, None
    while True:
        try:
            with mode:
                value = resume(given)
        except StopIteration as end:
            return end.value
        try:
            resume, given = generator.send, (yield value)
        except BaseException as error:  # thrown into the generator, or its end
            resume, given = generator.throw, error


class _Decorator(contextlib.ContextDecorator):
    """A context manager that decorates functions and generators."""

    def __call__(self, function):
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        def generate(*args, **kwargs):
            return (yield from _running_in(self._recreate_cm(), function(*args, **kwargs)))

        return generate


class _GradMode(_Decorator):
    def __new__(cls, function=None):
        new = super().__new__(cls)
        if function is None:
            return new
        new.__init__()
        return new(function)  # @no_grad without parentheses

    def __init__(self, enabled):
        self._scope = _binade._enable_grad() if enabled else _binade._no_grad()

    def __enter__(self):
        self._scope.__enter__()

    def __exit__(self, *error):
        return self._scope.__exit__(*error)


class no_grad(_GradMode):
    """A context manager or decorator in which ops record no backward.

    >>> import binade as bn
    >>> x = bn.ones(2, requires_grad=True)
    >>> with bn.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self):
        super().__init__(False)


class enable_grad(_GradMode):
    """A context manager or decorator in which ops record, even inside no_grad()."""

    def __init__(self):
        super().__init__(True)


class set_grad_enabled(_Decorator):
    """Switches recording on or off, from the call on; as a context manager or decorator for what is
    inside.

    >>> import binade as bn
    >>> with bn.set_grad_enabled(False):
    ...     bn.is_grad_enabled()
    False
    """

    def __init__(self, mode):
        self._mode, self._before = bool(mode), is_grad_enabled()
        _binade._set_grad_enabled(self._mode)

    def __call__(self, function):
        _binade._set_grad_enabled(self._before)
        return super().__call__(function)

    def _recreate_cm(self):
        return type(self)(self._mode)

    def __enter__(self):
        _binade._set_grad_enabled(self._mode)

    def __exit__(self, *error):
        _binade._set_grad_enabled(self._before)
        return False


def _checked(result, op):
    """The result of a function in Python, which must be a tensor."""
    if not isinstance(result, Tensor):
        _binade._fail(op, argument="result", expected="a tensor", found=type(result).__name__)
    return result


class FunctionCtx:
    """Carries what a Function's forward leaves for its backward."""

    saved_tensors = ()
    needs_input_grad = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors


class Function:
    """A differentiable function in Python, as in PyTorch: subclass it and call apply().

    Both methods are static. forward(ctx, ...) returns one tensor; backward(ctx, dy) returns one
    gradient per argument of forward, None for those without one.

    >>> import binade as bn
    >>> class Cube(bn.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, dy):
    ...         x, = ctx.saved_tensors
    ...         return dy * 3 * x * x
    >>> x = bn.tensor([2.0], requires_grad=True)
    >>> Cube.apply(x).sum().backward()
    >>> x.grad
    tensor([12.])
    """

    @staticmethod
    def forward(ctx, *args):
        raise NotImplementedError("a Function has a static forward(ctx, ...)")

    @staticmethod
    def backward(ctx, grad_output):
        raise NotImplementedError("a Function has a static backward(ctx, grad_output)")

    @classmethod
    def apply(cls, *args):
        """Runs forward and records backward."""
        ctx = FunctionCtx()
        places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)

        def forward(*tensors):
            given = list(args)
            for place, tensor in zip(places, tensors):
                given[place] = tensor
            return _checked(cls.forward(ctx, *given), cls.__name__ + ".forward")

        def backward(dy):
            gradients = cls.backward(ctx, dy)
            if not isinstance(gradients, tuple):
                gradients = (gradients,)
            if len(gradients) != len(args):
                _binade._fail(cls.__name__ + ".backward", argument="result",
                              expected=f"{len(args)} gradients", found=str(len(gradients)))
            return [gradients[place] if gradients[place] is None
                    else _checked(gradients[place], cls.__name__ + ".backward")
                    for place in places]

        cast = getattr(cls.forward, "_binade_cast", "as_is")
        return _binade._custom(cls.__name__, cast, forward, backward,
                               [args[place] for place in places])


def grad(outputs, inputs, grad_outputs=None, retain_graph=False, create_graph=False,
         allow_unused=False):
    """The gradients of `outputs` with respect to `inputs`, leaves or results of ops. No tensor's
    grad changes. `allow_unused`: None for an input that no output depends on.

    >>> import binade as bn
    >>> x = bn.tensor([1.0, 2.0], requires_grad=True)
    >>> bn.autograd.grad((x * x).sum(), x), x.grad
    ((tensor([2., 4.]),), None)
    """
    if create_graph:
        _binade._fail("grad", argument="create_graph", expected="False", found="True",
                      hint="Binade records no graph of a backward pass")
    outputs, inputs = ([x] if isinstance(x, Tensor) else list(x) for x in (outputs, inputs))
    if grad_outputs is None:
        seeds = []
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    return tuple(_binade._grad(outputs, inputs, seeds, bool(retain_graph), bool(allow_unused)))
