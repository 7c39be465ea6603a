import binade as bn
import numpy as np
import pytest


def test_autocast_casts_by_policy():
    a = bn.ones(4, 4)
    with bn.amp.autocast("cpu"):
        assert bn.amp.is_autocast_enabled() and bn.amp.get_autocast_dtype() is bn.bf16
        assert (a @ a).dtype is bn.bf16
        assert bn.softmax(a @ a).dtype is bn.f32
        with bn.amp.autocast("cpu", enabled=False):
            assert (a @ a).dtype is bn.f32
        assert (a @ a).dtype is bn.bf16
    assert not bn.amp.is_autocast_enabled() and (a @ a).dtype is bn.f32


def test_autocast_decorates_and_nests():
    cast = bn.autocast("cuda")
    a = bn.ones(2, 2)

    @cast
    def product():
        with cast:
            return a @ a

    assert product().dtype is bn.f16 and (a @ a).dtype is bn.f32


def test_autocast_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError):
        with bn.autocast("cpu"):
            1 / 0
    assert not bn.amp.is_autocast_enabled()


def test_policies():
    policy = bn.amp.Policy().set("matmul", "f32")
    a = bn.ones(2, 2)
    with bn.autocast("cpu", policy=policy):
        assert (a @ a).dtype is bn.f32
    with pytest.raises(bn.Error, match="an op"):
        bn.amp.Policy().set("no such op", "f32")


def test_refused_ops_say_what_to_use():
    with bn.autocast("cpu"):
        with pytest.raises(bn.Error, match="bce_with_logits"):
            bn.binary_cross_entropy(bn.ones(2), bn.ones(2))


def test_explain_lists_modules_and_casts():
    model = bn.nn.Sequential(bn.nn.Linear(4, 4), bn.nn.ReLU())

    def program():
        with bn.autocast("cpu"):
            model(bn.ones(2, 4)).sum().backward()

    trace = bn.amp.explain(program)
    linear = next(op for op in trace if op.op == "linear" and not op.backward)
    assert linear.module == "0" and linear.compute[0] is bn.bf16 and linear.casts
    assert any(op.backward for op in trace) and "linear" in str(trace)


def test_scaler_skips_and_backs_off():
    w = bn.ones(2, requires_grad=True)
    optimizer = bn.optim.SGD([w], lr=1.0)
    scaler = bn.amp.GradScaler(init_scale=4.0, growth_interval=1)
    scaler.scale((w * float("inf")).sum()).backward()
    report = scaler.step(optimizer)
    assert not report.applied and "finite" in report.reason
    scaler.update()
    assert scaler.get_scale() == 2 and w.tolist() == [1, 1]
    optimizer.zero_grad()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1, 1]
    assert scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4 and w.tolist() == [0, 0]


def test_scaler_state():
    scaler = bn.amp.GradScaler(init_scale=8.0)
    other = bn.amp.GradScaler()
    w = bn.ones(1, requires_grad=True)
    scaler.scale(w.sum()).backward()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8
    assert bn.amp.GradScaler(enabled=False).scale(w).tolist() == [1]
    assert scaler.get_growth_factor() == 2 and scaler.get_growth_interval() == 2000


@pytest.mark.parametrize("scaling", ["delayed", "current", "row", "block", "mx"])
def test_fp8_recipes_round_operands(scaling):
    layer = bn.nn.Linear(64, 64, bias=False)
    x = bn.randn(32, 64, seed=1)
    exact = layer(x).detach().numpy()
    with bn.amp.fp8_autocast(fp8_recipe=bn.amp.Fp8Recipe(scaling)):
        y = layer(x)
        y.sum().backward()
    error = np.abs(y.detach().numpy() - exact).max() / np.abs(exact).max()
    assert 0 < error < 0.2
    assert layer.weight.grad is not None


def test_fp8_state_is_saved():
    layer = bn.nn.Linear(16, 16)
    with bn.amp.fp8_autocast(fp8_recipe="delayed"):
        layer(bn.ones(16, 16)).sum().backward()
    state = layer.state_dict()
    assert any(name.startswith("fp8.") for name in state)
    other = bn.nn.Linear(16, 16)
    other.load_state_dict(state)
    assert set(other.state_dict()) == set(state)


def test_fp8_state_of_a_model_is_saved():
    sizes = dict(layers=1, width=16, heads=2, vocab=32, context=16)
    model, other = bn.nn.GPT(**sizes), bn.nn.GPT(**sizes)
    tokens = bn.zeros(1, 16, dtype=bn.i64)
    with bn.amp.fp8_autocast():
        model.loss(tokens, tokens).backward()
    other.load_state_dict(model.state_dict())
    assert set(other.state_dict()) == set(model.state_dict())
    assert any(".fp8." in name for name in other.state_dict())


def test_recipe_options():
    recipe = bn.amp.Fp8Recipe("delayed", history=4, margin=1, exclude=["head"])
    assert recipe.history == 4 and recipe.exclude == ["head"]
    with pytest.raises(TypeError, match="no option"):
        bn.amp.Fp8Recipe(histroy=4)
    with pytest.raises(bn.Error):
        bn.amp.Fp8Recipe("delayed", history=0)
    with pytest.raises(bn.Error):
        bn.amp.Fp8Recipe("nonsense")


def test_autocast_knows_its_devices():
    with pytest.raises(bn.Error, match="cpu or cuda"):
        bn.autocast("gpu")
