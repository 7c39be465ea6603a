import os
import subprocess
import sys

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

    class Empty(bn.nn.Module):
        def __init__(self):
            pass

    with pytest.raises(AttributeError, match="super"):
        Empty()(1)


def test_a_name_has_one_value():
    module = bn.nn.Module()
    module.weight = None
    module.weight = bn.nn.Parameter(bn.ones(1))
    assert module.weight.tolist() == [1] and len(list(module.parameters())) == 1
    module.weight = bn.nn.Linear(1, 1)
    assert [n for n, _ in module.named_parameters()] == ["weight.weight", "weight.bias"]
    module.weight = None
    assert module.weight is None and list(module.parameters()) == []


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


def test_transposed_convolutions_are_gradients_of_convolutions():
    conv = bn.nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
    x = bn.randn(1, 4, 4, 4, seed=1)
    y = conv(x)
    assert y.shape == (1, 3, 8, 8) and conv.weight.shape == (4, 3, 3, 3)
    image = bn.zeros(1, 3, 8, 8, requires_grad=True)
    bn.conv2d(image, conv.weight, stride=2, padding=1).backward(x)
    np.testing.assert_allclose((y - conv.bias.reshape(1, 3, 1, 1)).detach().numpy(),
                               image.grad.numpy(), rtol=1e-5, atol=1e-5)


def test_recurrent_layers():
    x = bn.randn(5, 3, 4, seed=1)
    lstm = bn.nn.LSTM(4, 8)
    assert [n for n, _ in lstm.named_parameters()] == [
        "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    output, (hidden, cell) = lstm(x)
    state = bn.zeros(3, 8), bn.zeros(3, 8)
    for step in range(5):
        state = bn.lstm_cell(x[step], state, *(p for _, p in lstm.named_parameters()))
    np.testing.assert_allclose(output[4].detach().numpy(), state[0].detach().numpy(), rtol=1e-5,
                               atol=1e-6)
    np.testing.assert_allclose(cell[0].detach().numpy(), state[1].detach().numpy(), rtol=1e-5,
                               atol=1e-6)
    again, _ = lstm(x[:2])
    resumed, (last, _) = lstm(x[2:], lstm(x[:2])[1])
    assert bn.cat([again, resumed]).tolist() == output.tolist() and last.tolist() == hidden.tolist()
    gru = bn.nn.GRU(4, 8, num_layers=2, batch_first=True, bidirectional=True)
    output, hidden = gru(x.transpose(0, 1))
    assert output.shape == (3, 5, 16) and hidden.shape == (4, 3, 8)
    output, _ = bn.nn.RNN(4, 8, nonlinearity="relu")(x)
    assert output.min().item() >= 0
    with pytest.raises(bn.Error, match="tanh or relu"):
        bn.nn.RNN(4, 8, nonlinearity="gelu")


def test_masked_attention():
    layer = bn.nn.MaskedAttention(8, 2, batch_first=True)
    assert {n for n, _ in layer.named_parameters()} == {
        "in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
    x = bn.randn(2, 5, 8, seed=1)
    padding = bn.tensor([[False] * 5, [False, False, False, True, True]])
    output, weights = layer(x, x, x, key_padding_mask=padding)
    assert weights[1, :, 3:].abs().sum().item() == 0
    np.testing.assert_allclose(weights.sum(dim=2).detach().numpy(), np.ones((2, 5)), rtol=1e-6)
    plain, none = layer(x[1:, :3], x[1:, :3], x[1:, :3], need_weights=False)
    assert none is None
    np.testing.assert_allclose(output[1:, :3].detach().numpy(), plain.detach().numpy(), rtol=1e-5,
                               atol=1e-6)


def test_pools_and_activations():
    x = bn.randn(2, 3, 8, 8, seed=1)
    assert bn.nn.MaxPool2d(2)(x).tolist() == bn.max_pool(x, 2).tolist()
    assert bn.nn.AvgPool2d(3, 2, 1)(x).tolist() == bn.avg_pool(x, 3, 2, 1).tolist()
    assert bn.nn.AdaptiveAvgPool2d(1)(x).shape == (2, 3, 1, 1)
    norm = bn.nn.InstanceNorm2d(3, affine=True)
    assert norm(x).shape == x.shape and len(list(norm.parameters())) == 2
    assert bn.nn.ELU()(bn.tensor([-1.0])).item() == pytest.approx(np.expm1(-1))
    assert bn.nn.PReLU()(bn.tensor([-4.0, 4.0])).tolist() == [-1, 4]
    assert bn.nn.Mish()(x).tolist() == bn.mish(x).tolist()
    assert "kernel_size=2" in repr(bn.nn.MaxPool2d(2))


def test_hooks_see_and_change_values():
    layer = bn.nn.Linear(2, 2)
    seen = []
    first = layer.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    second = layer.register_forward_hook(lambda module, args, out: seen.append((module, out)))
    assert layer(bn.ones(1, 2))[0].tolist() == layer.bias.tolist()
    assert seen[0][0] is layer
    first.remove()
    first.remove()
    with second:
        layer(bn.ones(1, 2))
    layer(bn.ones(1, 2))
    assert len(seen) == 2


def test_hooks_inside_a_model_of_the_engine():
    model = bn.nn.GPT(1, 16, 2, 50, 8)
    tokens = bn.zeros(1, 4, dtype=bn.i64)
    before = model(tokens).tolist()
    up = model.get_submodule("blocks.0.mlp.up")
    shapes = []
    handle = up.register_forward_hook(lambda module, args, out: shapes.append(
        (module.weight.shape, args[0].shape, out.shape)))
    assert model(tokens).tolist() == before
    assert shapes == [((64, 16), (1, 4, 16), (1, 4, 64))]
    handle.remove()
    cut = up.register_forward_hook(lambda module, args, out: out * 0)
    assert model(tokens).tolist() != before
    cut.remove()

    def fails(module, args, out):
        raise KeyError("mine")

    up.register_forward_hook(fails)
    with pytest.raises(KeyError, match="mine"):
        model(tokens)
    other = bn.nn.GPT(1, 16, 2, 50, 8)
    other.get_submodule("blocks.0.mlp").register_forward_hook(lambda *args: "text")
    with pytest.raises(bn.Error, match="hook: .* found str"):
        other(tokens)
    with pytest.raises(AttributeError, match="no layer"):
        model.get_submodule("blocks.7")


def test_a_program_with_hooks_ends_without_a_message():
    program = """
import binade as bn
model = bn.nn.GPT(1, 16, 2, 50, 8)
model.get_submodule("blocks.0.mlp").register_forward_hook(lambda module, args, out: None)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stderr) == (0, "")


def test_adapters():
    model = bn.nn.GPT(1, 16, 2, 50, 8)
    tokens = bn.zeros(1, 4, dtype=bn.i64)
    before = model(tokens).tolist()
    model.add_adapters(rank=2, targets=["c_attn"])
    assert model(tokens).tolist() == before  # b starts at zero
    trained = [p for p in model.parameters() if p.requires_grad]
    assert len(trained) == 2
    optimizer = bn.optim.AdamW(trained, lr=0.1)
    model.loss(tokens, tokens).backward()
    optimizer.step()
    assert model(tokens).tolist() != before
    other = bn.nn.GPT(1, 16, 2, 50, 8)
    other.add_adapters(rank=2, targets=["c_attn"])
    other.load_adapter_state_dict(model.adapter_state_dict())
    assert other(tokens).tolist() == model(tokens).tolist()


def test_documents_do_not_see_one_another():
    model = bn.nn.GPT(1, 16, 2, 50, 8)
    tokens = bn.randint(0, 50, (1, 8), seed=1)
    whole = model.loss(tokens, tokens, documents=[0, 3, 8]).item()
    parts = [model.loss(t, t).item() * t.numel() for t in (tokens[:, :3], tokens[:, 3:])]
    assert whole == pytest.approx(sum(parts) / 8, rel=1e-5)


def test_module_dict():
    heads = bn.nn.ModuleDict({"keys": bn.nn.Linear(2, 3)})
    heads["b"] = bn.nn.ReLU()
    assert list(heads) == ["keys", "b"] and "b" in heads and len(heads) == 2
    assert [n for n, _ in heads.named_parameters()] == ["keys.weight", "keys.bias"]
    assert heads["keys"](bn.ones(1, 2)).shape == (1, 3)
    del heads["b"]
    assert [type(m).__name__ for m in heads.values()] == ["Linear"]


def test_containers_are_changed_and_cut():
    model = bn.nn.Sequential(bn.nn.Linear(2, 3), bn.nn.ReLU()).append(bn.nn.Linear(3, 1))
    model[1] = bn.nn.Tanh()
    assert [type(m).__name__ for m in model] == ["Linear", "Tanh", "Linear"]
    assert model[:2](bn.ones(1, 2)).shape == (1, 3) and isinstance(model[:1], bn.nn.Sequential)
    layers = bn.nn.ModuleList([bn.nn.ReLU()])
    layers.extend([bn.nn.Tanh(), bn.nn.ReLU()])
    assert len(layers[1:]) == 2 and isinstance(layers[-1], bn.nn.ReLU)


def test_a_model_is_printed_with_its_layers():
    text = repr(bn.nn.GPT(3, 16, 2, 50, 8))
    assert "(0-2): 3 x TransformerBlock(" in text and "(up): Linear(16, 64)" in text
    assert repr(bn.nn.ResNet(3, (4, 8), (1, 1), 5)).count("Conv2d(") > 3
    assert repr(bn.nn.Sequential(bn.nn.Linear(2, 3))) == \
        "Sequential(\n  (0): Linear(2, 3, bias=True)\n)"


INITS = {  # options for a weight [300, 50], the deviation, the largest magnitude
    "xavier_uniform_": ({}, (2 / 350) ** 0.5, (6 / 350) ** 0.5),
    "xavier_normal_": ({"gain": 2.0}, 2 * (2 / 350) ** 0.5, None),
    "kaiming_uniform_": ({"a": 5**0.5}, (1 / 3 / 50) ** 0.5, (1 / 50) ** 0.5),
    "kaiming_normal_": ({"mode": "fan_out", "nonlinearity": "relu"}, (2 / 300) ** 0.5, None),
    "trunc_normal_": ({"std": 0.5, "a": -0.5, "b": 0.5}, 0.5 * 0.53956, 0.5),
    "uniform_": ({"a": -3.0, "b": 3.0}, 3**0.5, 3.0),
    "normal_": ({"std": 0.1}, 0.1, None),
}


@pytest.mark.parametrize("name", INITS)
def test_initial_values(name):
    options, deviation, largest = INITS[name]
    w = bn.empty(300, 50, requires_grad=True)
    assert getattr(bn.nn.init, name)(w, **options) is w
    values = w.detach().numpy()
    # 15,000 draws: the deviation is known to 0.6% (one sigma), the mean to 0.8% of the deviation.
    assert values.std() == pytest.approx(deviation, rel=0.03)
    assert abs(values.mean()) < 0.04 * deviation
    if largest is not None:
        assert 0.95 * largest < np.abs(values).max() <= largest


def test_orthogonal_and_identity():
    w = bn.nn.init.orthogonal_(bn.empty(3, 5), gain=2.0)
    assert np.allclose((w @ w.T).numpy(), 4 * np.eye(3), atol=1e-5)
    assert bn.nn.init.eye_(bn.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert bn.nn.init.calculate_gain("leaky_relu", 1.0) == pytest.approx(1.0)
    with pytest.raises(bn.Error, match="fan_in"):
        bn.nn.init.kaiming_normal_(w, mode="fan")


def test_differences_of_a_state_stand_on_lines_of_their_own():
    with pytest.raises(bn.Error) as raised:
        bn.nn.Linear(2, 3).load_state_dict({"weight": bn.ones(2, 2), "extra": bn.ones(1)})
    assert str(raised.value).splitlines()[1:] == [
        "  missing: bias", "  not in this model: extra", "  weight: expected [3, 2], found [2, 2]"]
