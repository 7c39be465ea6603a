import binade as bn
import numpy as np
import pytest


class Block(bn.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = bn.nn.LayerNorm(width)
        self.layers = bn.nn.ModuleList([bn.nn.Linear(width, width) for _ in range(2)])
        self.scale = bn.nn.Parameter(bn.ones(width))
        self.register_buffer("count", bn.zeros(1))

    def forward(self, x):
        for layer in self.layers:
            x = bn.gelu(layer(self.norm(x)))
        return x * self.scale


def test_parameters_of_a_python_module():
    block = Block(8)
    assert [n for n, _ in block.named_parameters()] == [
        "scale", "norm.weight", "norm.bias", "layers.0.weight", "layers.0.bias",
        "layers.1.weight", "layers.1.bias"]
    assert [n for n, _ in block.named_buffers()] == ["count"]
    assert all(p.requires_grad and p.is_leaf for p in block.parameters())
    block(bn.ones(2, 8)).sum().backward()
    assert all(p.grad is not None for p in block.parameters())
    block.zero_grad()
    assert all(p.grad is None for p in block.parameters())


def test_state_dict_round_trip():
    first, second = Block(8), Block(8)
    state = first.state_dict()
    assert set(state) == {n for n, _ in first.named_parameters()} | {"count"}
    second.load_state_dict({n: t.numpy() for n, t in state.items()})
    x = bn.randn(3, 8, seed=1)
    assert first(x).tolist() == second(x).tolist()
    with pytest.raises(bn.Error) as raised:
        second.load_state_dict({"scale": bn.ones(9), "surplus": bn.ones(1)})
    for fact in ("missing: norm.weight", "surplus", "expected [8], found [9]"):
        assert fact in str(raised.value)
    second.load_state_dict({"scale": bn.zeros(8)}, strict=False)
    assert second.scale.tolist() == [0] * 8


def test_shared_parameters_are_listed_once():
    net = bn.nn.Sequential(bn.nn.Linear(4, 4))
    net.tied = bn.nn.Sequential(net[0])
    assert len(list(net.parameters())) == 2


def test_dtypes_and_modes():
    block = Block(8).to(bn.bfloat16)
    assert {p.dtype for p in block.parameters()} == {bn.bf16}
    assert all(p.requires_grad for p in block.parameters())
    assert block.count.dtype is bn.f32
    block.eval()
    assert not block.norm.training
    dropout = bn.nn.Dropout(0.5)
    assert dropout.eval()(bn.ones(8)).tolist() == [1] * 8
    assert 0 in dropout.train()(bn.ones(64)).tolist()


def test_layers_equal_their_definitions():
    x = bn.randn(2, 3, 8, 8, seed=1)
    conv = bn.nn.Conv2d(3, 4, 3, padding=1)
    assert conv(x).shape == (2, 4, 8, 8)
    assert conv(x).tolist() == bn.conv2d(x, conv.weight, conv.bias, padding=1).tolist()
    assert bn.nn.GroupNorm(1, 3)(x).shape == bn.nn.BatchNorm2d(3)(x).shape == x.shape
    linear = bn.nn.Linear(8, 5)
    assert linear(x).tolist() == bn.linear(x, linear.weight, linear.bias).tolist()
    table = bn.nn.Embedding(10, 4)
    assert table(bn.tensor([3, 3]))[0].tolist() == table.weight[3].tolist()
    assert bn.nn.MultiheadAttention(8, 2)(bn.ones(1, 4, 8)).shape == (1, 4, 8)
    assert bn.nn.MLP(8, 16, gated=True)(bn.ones(2, 8)).shape == (2, 8)


def test_assigning_before_init_is_explained():
    class Bad(bn.nn.Module):
        def __init__(self):
            self.layer = bn.nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="super"):
        Bad()


def test_models():
    tokens = bn.randint(0, 50, (2, 8), seed=0)
    for model in (bn.nn.GPT(1, 16, 2, 50, 8), bn.nn.Llama(1, 16, 2, 1, 32, 50, 8)):
        logits = model(tokens)
        assert logits.shape == (2, 8, 50)
        expected = bn.cross_entropy(logits, tokens).item()
        assert model.loss(tokens, tokens).item() == pytest.approx(expected, rel=1e-5)
    assert bn.nn.ResNet(widths=(8,), blocks=(1,), classes=5, large_stem=False)(
        bn.ones(1, 3, 8, 8)).shape == (1, 5)
    bottlenecks = bn.nn.ResNet(widths=(8,), blocks=(1,), classes=5, block="bottleneck")
    assert bottlenecks.state_dict()["fc.weight"].shape == (5, 32)
    with pytest.raises(bn.Error, match="one of basic, bottleneck"):
        bn.nn.ResNet(block="wide")


def test_pretrained_folders(tmp_path):
    model = bn.nn.GPT(1, 16, 2, 50, 8, seed=3)
    model.save_pretrained(tmp_path)
    again = bn.nn.GPT.from_pretrained(tmp_path)
    tokens = bn.zeros(1, 4, dtype=bn.i64)
    assert again(tokens).tolist() == model(tokens).tolist()
    state = bn.load_safetensors(tmp_path / "model.safetensors")
    bn.save_safetensors(tmp_path / "copy.safetensors", state)
    assert bn.load_safetensors(tmp_path / "copy.safetensors").keys() == state.keys()


def test_init():
    x = bn.empty(1000)
    bn.nn.init.normal_(x, mean=1.0, std=0.1)
    assert abs(np.mean(x.numpy()) - 1) < 5 * 0.1 / np.sqrt(1000)
    bn.nn.init.uniform_(x, 2, 3)
    assert 2 <= x.min().item() and x.max().item() < 3
    assert bn.nn.init.zeros_(x).sum().item() == 0


def test_text():
    assert "Linear(8, 8, bias=True)" in repr(Block(8))
