"""Copies and pickles of tensors and modules."""

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


def pickled(module):
    return pickle.loads(pickle.dumps(module))


TOKENS = bn.tensor([[3, 1, 4, 1]])
LAYERS = {
    "Linear": (lambda: bn.nn.Linear(6, 3, dtype=bn.bf16), lambda m: m(bn.ones(2, 6, dtype=bn.bf16))),
    "Conv2d": (lambda: bn.nn.Conv2d(2, 3, (3, 2), stride=2), lambda m: m(bn.ones(1, 2, 5, 6))),
    "BatchNorm2d": (lambda: bn.nn.BatchNorm2d(3), lambda m: m(bn.randn(2, 3, 4, 4, seed=1))),
    "LSTM": (lambda: bn.nn.LSTM(4, 5, num_layers=2), lambda m: m(bn.ones(3, 2, 4))[0]),
    "MaskedAttention": (lambda: bn.nn.MaskedAttention(8, 2), lambda m: m(*[bn.ones(3, 2, 8)] * 3)[0]),
    "GPT": (lambda: bn.nn.GPT(2, 16, 2, 50, 8, seed=3), lambda m: m(TOKENS)),
    "Llama": (lambda: bn.nn.Llama(1, 16, 2, 1, 24, 50, 8), lambda m: m(TOKENS)),
    "ResNet": (lambda: bn.nn.ResNet(3, (4, 8), (1, 1), 5), lambda m: m.eval()(bn.ones(1, 3, 32, 32))),
    "Sequential": (lambda: bn.nn.Sequential(bn.nn.Linear(6, 3), bn.nn.Tanh()), lambda m: m(bn.ones(2, 6))),
}


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
@pytest.mark.parametrize("kind", LAYERS)
def test_modules_of_the_engine(kind, copied):
    make, run = LAYERS[kind]
    module = make().eval()
    next(module.parameters()).requires_grad = False
    bn.manual_seed(5)
    other = copied(module)
    drawn = bn.nn.Linear(2, 2).weight.tolist()
    assert run(other).tolist() == run(module).tolist() and not other.training
    names = [(n, p.dtype, p.requires_grad) for n, p in other.named_parameters()]
    assert names == [(n, p.dtype, p.requires_grad) for n, p in module.named_parameters()]
    before = run(module).tolist()
    with bn.no_grad():
        for parameter in other.parameters():
            parameter += 1
    assert run(module).tolist() == before
    bn.manual_seed(5)
    assert bn.nn.Linear(2, 2).weight.tolist() == drawn  # a copy draws nothing


def test_a_copy_shares_what_its_original_shares():
    class Tied(bn.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = bn.nn.Embedding(10, 4)
            self.head = bn.nn.Linear(4, 10, bias=False)
            self.head.weight = self.embedding.weight

    module = Tied()
    assert len(list(module.parameters())) == 1
    other = copy.deepcopy(module)
    assert len(list(other.parameters())) == 1
    assert other.head.weight.data_ptr() != module.head.weight.data_ptr()
    module.head(module.embedding(bn.tensor([1]))).sum().backward()
    assert module.embedding.weight.grad.abs().sum().item() > 0
    with pytest.raises(bn.Error, match=r"\[10, 4\]"):
        module.head.weight = bn.ones(4, 10, requires_grad=True)


def test_a_model_of_a_folder_is_copied_and_not_pickled(tmp_path):
    bn.nn.GPT(1, 16, 2, 50, 8).save_pretrained(tmp_path)
    module = bn.nn.GPT.from_pretrained(tmp_path)
    assert copy.deepcopy(module)(TOKENS).tolist() == module(TOKENS).tolist()
    with pytest.raises(TypeError, match="save_pretrained"):
        pickle.dumps(module)


def test_a_model_with_adapters_is_not_copied():
    module = bn.nn.GPT(1, 16, 2, 50, 8)
    module.add_adapters(rank=2)
    with pytest.raises(bn.Error, match="adapters"):
        copy.deepcopy(module)


def test_an_optimizer_refuses():
    with pytest.raises(TypeError):
        pickle.dumps(bn.optim.SGD([bn.ones(1, requires_grad=True)]))
