"""Functions that take their operands as separate arguments."""

from . import _binade


def einsum(equation, *operands):
    """The sum of products that an equation describes.

    >>> import binade as bn
    >>> bn.einsum("ij,jk->ik", bn.ones(2, 3), bn.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return _binade._einsum(equation, list(operands))


def checkpoint(function, *inputs):
    """function(*inputs) without saving activations: the backward runs `function` again."""
    def checked(*given):
        result = function(*given)
        if not isinstance(result, _binade.Tensor):
            _binade._fail("checkpoint", argument="function", expected="one that returns a tensor",
                          found=type(result).__name__)
        return result

    return _binade._checkpoint(checked, list(inputs))


def clone(input):
    """A copy with memory of its own."""
    return input.clone()


def equal(input, other):
    """Whether two tensors have the same shape and equal elements.

    >>> import binade as bn
    >>> bn.equal(bn.ones(2), bn.ones(2)), bn.equal(bn.ones(2), bn.ones(3))
    (True, False)
    """
    if input.shape != other.shape:
        return False
    return bool((input == other).to(_binade.i32).sum().item() == input.numel())


def allclose(input, other, rtol=1e-5, atol=1e-8):
    """Whether |input - other| <= atol + rtol * |other| for all elements.

    >>> import binade as bn
    >>> bn.allclose(bn.ones(2), bn.ones(2) + 1e-6)
    True
    """
    return bool(((input - other).abs() <= other.abs() * rtol + atol).all().item())
