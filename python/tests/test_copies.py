"""Copies and pickles: tensors and modules of Python have them, modules of the engine refuse."""

import copy
import pickle

import binade as bn
import pytest

DTYPES = [bn.f64, bn.f32, bn.f16, bn.bf16, bn.e4m3, bn.e5m2, bn.i64, bn.i32, bn.u8, bn.bool]


class Scaled(bn.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = bn.nn.Parameter(bn.ones(2))
        self.register_buffer("count", bn.zeros(1))

    def forward(self, x):
        return x * self.scale


class WithLayer(bn.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = bn.nn.Linear(2, 2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_are_pickled(dtype):
    x = bn.tensor([[0.0, 1.0], [1.0, 0.0]]).to(dtype) if dtype not in (bn.e4m3, bn.e5m2) \
        else bn.zeros(2, 2, dtype=dtype)
    for source in (x, x.transpose(0, 1), x[:0], x[0, 0]):
        y = pickle.loads(pickle.dumps(source))
        assert y.dtype is dtype and y.shape == source.shape and y.tolist() == source.tolist()
        assert y.data_ptr() != source.data_ptr() or source.numel() == 0


def test_gradients_and_leaves():
    x = bn.ones(2, requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.requires_grad and y.is_leaf and y.grad is None
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(bn.Error, match="detach"):
            copied(x * 2)


def test_a_copy_of_a_list_keeps_what_is_shared():
    x = bn.ones(1)
    first, second = copy.deepcopy([x, x])
    assert first is second


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_modules_of_python(copied):
    module = Scaled()
    other = copied(module)
    other.scale.data.fill_(3)
    assert isinstance(other.scale, bn.nn.Parameter) and other.scale.requires_grad
    assert module.scale.tolist() == [1, 1] and other(bn.ones(2)).tolist() == [3, 3]
    assert [n for n, _ in other.named_buffers()] == ["count"]
    pool = copied(bn.nn.Sequential(bn.nn.MaxPool2d(2), bn.nn.Flatten()))
    assert pool(bn.ones(1, 3, 4, 4)).shape == (1, 12)


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickle.dumps])
@pytest.mark.parametrize("make", [lambda: bn.nn.Linear(2, 2), lambda: bn.nn.GPT(1, 16, 2, 50, 8)])
def test_modules_of_the_engine_refuse(make, copied):
    with pytest.raises(TypeError, match="state_dict"):
        copied(make())


def test_a_module_with_layers_of_the_engine_refuses_too():
    with pytest.raises(TypeError, match="Linear .* state_dict"):
        copy.deepcopy(WithLayer())


def test_an_optimizer_refuses():
    with pytest.raises(TypeError):
        pickle.dumps(bn.optim.SGD([bn.ones(1, requires_grad=True)]))
