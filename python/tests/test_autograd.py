import binade as bn
import numpy as np
import pytest


def test_backward_accumulates_and_grad_can_be_set():
    x = bn.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 7]
    x.grad = None
    assert x.grad is None
    x.grad = bn.ones(2)
    assert x.grad.tolist() == [1, 1]


def test_no_grad_as_context_and_decorator():
    x = bn.ones(1, requires_grad=True)

    @bn.no_grad()
    def double(y):
        with bn.enable_grad():
            assert (y * 2).requires_grad
        return y * 2

    assert not double(x).requires_grad and (x * 2).requires_grad
    with bn.set_grad_enabled(False):
        assert not bn.autograd.is_grad_enabled()


class Power(bn.autograd.Function):
    @staticmethod
    def forward(ctx, x, exponent, scale):
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return x ** exponent * scale

    @staticmethod
    def backward(ctx, dy):
        x, = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, False)
        return dy * ctx.exponent * x ** (ctx.exponent - 1), None, None


def test_functions_in_python():
    x = bn.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = Power.apply(x, 3, bn.ones(1))
    assert y.tolist() == [1, 8, 27]
    y.sum().backward()
    assert x.grad.tolist() == [3, 12, 27]


def test_python_exceptions_pass_through_the_engine():
    class Broken(bn.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, dy):
            raise KeyError("mine")

    x = bn.ones(1, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        Broken.apply(x).sum().backward()


def test_gradients_do_not_overwrite_foreign_memory():
    shared = np.ones(2, np.float32)

    class Shared(bn.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, dy):
            return bn.from_numpy(shared)

    x = bn.zeros(2, requires_grad=True)
    y = x * 1
    (Shared.apply(y) + Shared.apply(y) + y).sum().backward()
    assert shared.tolist() == [1, 1] and x.grad.tolist() == [3, 3]


def test_grad_leaves_gradients_alone():
    x = bn.tensor([3.0], requires_grad=True)
    x.grad = bn.ones(1)
    assert bn.autograd.grad((x * x).sum(), x)[0].tolist() == [6]
    assert x.grad.tolist() == [1]
    with pytest.raises(bn.Error, match="create_graph"):
        bn.autograd.grad(x.sum(), x, create_graph=True)


def test_checkpoint_recomputes():
    calls = []

    def square(x):
        calls.append(1)
        return x * x

    x = bn.tensor([3.0], requires_grad=True)
    bn.checkpoint(square, x).sum().backward()
    assert x.grad.tolist() == [6] and len(calls) == 2


def test_results_that_are_no_tensors_are_named():
    def apply(forward, backward):
        name = type("Mine", (bn.autograd.Function,), {"forward": staticmethod(forward),
                                                      "backward": staticmethod(backward)})
        name.apply(bn.ones(2, requires_grad=True)).sum().backward()

    with pytest.raises(bn.Error, match="Mine.forward: .* found str"):
        apply(lambda ctx, x: "text", None)
    with pytest.raises(bn.Error, match="Mine.backward: .* found ndarray"):
        apply(lambda ctx, x: x * 1, lambda ctx, dy: dy.numpy())
    with pytest.raises(bn.Error, match="Mine.backward: .* 1 gradients, found 2"):
        apply(lambda ctx, x: x * 1, lambda ctx, dy: (dy, dy))
    with pytest.raises(bn.Error, match="checkpoint: .* found int"):
        bn.checkpoint(lambda x: 1, bn.ones(1, requires_grad=True))


def test_set_grad_enabled_is_a_statement_too():
    x = bn.ones(2, requires_grad=True)
    try:
        bn.set_grad_enabled(False)
        assert not (x * 2).requires_grad
    finally:
        bn.set_grad_enabled(True)
    assert (x * 2).requires_grad

    @bn.set_grad_enabled(False)
    def inside():
        return bn.is_grad_enabled()

    assert bn.is_grad_enabled() and not inside() and bn.is_grad_enabled()


def test_no_grad_holds_inside_a_generator_only():
    @bn.no_grad
    def generate():
        received = []
        try:
            while len(received) < 2:
                received.append((yield bn.is_grad_enabled()))
        finally:
            received.append(bn.is_grad_enabled())
        return received

    generator = generate()
    assert next(generator) is False and bn.is_grad_enabled()
    assert generator.send("a") is False
    with pytest.raises(StopIteration) as end:
        generator.send("b")
    assert end.value.value == ["a", "b", False] and bn.is_grad_enabled()
    assert list(bn.no_grad()(lambda: (yield 1))()) == [1]
