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


@pytest.mark.parametrize("recipe", ["delayed", "current", "row", "block", "mx",
                                    'row, matmuls = ["forward"], eps = 1e-6'])
def test_recipes_round_operands(recipe):
    layer = bn.nn.Linear(64, 64, bias=False)
    x = bn.randn(32, 64, seed=1)
    exact = layer(x).detach().numpy()
    with bn.amp.quantized_autocast(recipe):
        y = layer(x)
        y.sum().backward()
    error = np.abs(y.detach().numpy() - exact).max() / np.abs(exact).max()
    assert 0 < error < 0.2
    assert layer.weight.grad is not None


def test_fp8_autocast_has_the_arguments_of_transformer_engine():
    layer, x = bn.nn.Linear(32, 32), bn.randn(8, 32, seed=1)
    exact = layer(x).tolist()
    with bn.amp.fp8_autocast(enabled=False):
        assert layer(x).tolist() == exact
    with bn.amp.fp8_autocast(enabled=True, fp8_recipe="current"):
        y = layer(x).tolist()
    with bn.amp.quantized_autocast(bn.amp.Recipe("current")):
        assert layer(x).tolist() == y != exact
    with bn.amp.quantized_autocast("current", enabled=False):
        assert layer(x).tolist() == exact


def test_delayed_scales_are_saved():
    layer = bn.nn.Linear(16, 16)
    with bn.amp.quantized_autocast("delayed"):
        layer(bn.ones(16, 16)).sum().backward()
    state = layer.state_dict()
    assert any(name.startswith("scales.") for name in state)
    earlier = {name.replace("scales.", "fp8."): value for name, value in state.items()}
    for names in (state, earlier):
        other = bn.nn.Linear(16, 16)
        other.load_state_dict(names)
        assert set(other.state_dict()) == set(state)


def test_delayed_scales_of_a_model_are_saved():
    sizes = dict(layers=1, width=16, heads=2, vocab=32, context=16)
    model, other = bn.nn.GPT(**sizes), bn.nn.GPT(**sizes)
    tokens = bn.zeros(1, 16, dtype=bn.i64)
    with bn.amp.quantized_autocast():
        model.loss(tokens, tokens).backward()
    other.load_state_dict(model.state_dict())
    assert set(other.state_dict()) == set(model.state_dict())
    assert any(".scales." in name for name in other.state_dict())


def test_recipes_are_texts(tmp_path):
    recipe = bn.amp.Recipe('delayed, history = 4, margin = 1, exclude = ["head"]')
    assert recipe.name == "delayed"
    assert bn.amp.Recipe(str(recipe)) == recipe and hash(bn.amp.Recipe(str(recipe))) == hash(recipe)
    assert eval(repr(recipe), {"Recipe": bn.amp.Recipe}) == recipe
    assert recipe != bn.amp.Recipe("delayed, history = 4") and recipe != "delayed"
    assert str(bn.amp.Recipe()) == "delayed" and bn.amp.Recipe() == bn.amp.Recipe("delayed")
    file = tmp_path / "mine.toml"
    file.write_text('base = "block"\nname = "mine"\n[gradient]\nformat = "e4m3"\n')
    mine = bn.amp.Recipe(str(file))
    assert mine.name == "mine" and bn.amp.Recipe(str(mine)) == mine


@pytest.mark.parametrize("text, word", [
    ("delayed, histroy = 4", "histroy"), ("delayed, history = 0", "history"),
    ("nonsense", "nonsense"), ("row, hidden = true", "hidden"), ("row, head", "TOML")])
def test_wrong_recipes_are_refused(text, word):
    with pytest.raises(bn.Error, match=word):
        bn.amp.Recipe(text)
    with pytest.raises(bn.Error, match=word):
        bn.amp.quantized_autocast(text)


def test_autocast_knows_its_devices():
    with pytest.raises(bn.Error, match="cpu or cuda"):
        bn.autocast("gpu")


def test_a_wrong_dtype_or_precision_is_refused_where_it_is_written():
    with pytest.raises(TypeError, match="'bf61'"):
        bn.autocast("cpu", dtype="bf61")
    with pytest.raises(bn.Error, match="f16 or bf16"):
        bn.autocast("cpu", dtype=bn.i64)
    with pytest.raises(bn.Error, match="hihg"):
        bn.amp.matmul_precision("hihg")
    assert bn.autocast("cpu", dtype=bn.f32, enabled=False)
