"""Autograd: switching it off, gradients as values, and differentiable functions in Python."""

import contextlib

from . import _binade
from ._binade import Tensor, is_grad_enabled  # noqa: F401


class _GradMode(contextlib.ContextDecorator):
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


class set_grad_enabled(_GradMode):
    """enable_grad() or no_grad() by a value; a context manager only."""


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


def grad(outputs, inputs, grad_outputs=None, retain_graph=False, create_graph=False):
    """The gradients of `outputs` with respect to leaves, whose own gradients stay as they are."""
    if create_graph:
        _binade._fail("grad", argument="create_graph", expected="False", found="True",
                      hint="Binade records no graph of a backward pass")
    single = isinstance(outputs, Tensor)
    outputs = [outputs] if single else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for leaf in inputs:
        if not leaf.is_leaf:
            _binade._fail("grad", argument="inputs", expected="leaves",
                          found="a result of an op")
    seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
    kept = [None if leaf.grad is None else leaf.grad.clone() for leaf in inputs]
    for leaf in inputs:
        leaf.grad = None
    for i, output in enumerate(outputs):
        output.backward(None if seeds is None else seeds[i], retain_graph)
    found = []
    for leaf, before in zip(inputs, kept):
        found.append(None if leaf.grad is None else leaf.grad.clone())
        leaf.grad = before
    return tuple(found)
