import binade as bn
import numpy as np
import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("recipe", ["current", "row", "block", "mxfp8", "mxfp4"])
def test_linear_layers_run_on_quantized_operands(recipe):
    import binade.torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    x = torch.randn(8, 64)
    plain = model(x)
    binade.torch.fake_quant(model, recipe)
    y = model(x)
    hidden = torch.nn.functional.linear(
        bn.quantize(x, recipe).values,
        bn.quantize(model[0].weight, recipe, role="weight").values, model[0].bias).relu()
    expected = torch.nn.functional.linear(
        bn.quantize(hidden, recipe).values,
        bn.quantize(model[2].weight, recipe, role="weight").values, model[2].bias)
    assert torch.equal(y, expected) and not torch.equal(y, plain)
    y.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    binade.torch.unquantize(model)
    assert torch.equal(model(x), plain)


def test_quantize_returns_torch_tensors():
    q = bn.quantize(torch.ones(2, 2, dtype=torch.bfloat16), "current")
    assert isinstance(q.values, torch.Tensor) and q.values.dtype == torch.float32
    assert np.array_equal(q.values.numpy(), np.ones((2, 2)))
