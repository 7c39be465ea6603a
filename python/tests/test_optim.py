import binade as bn
import numpy as np
import pytest


def test_adamw_follows_its_formula():
    w = bn.tensor([1.0, -2.0], requires_grad=True)
    optimizer = bn.optim.AdamW([w], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    expected = np.array([1.0, -2.0])
    first, second = np.zeros(2), np.zeros(2)
    for step in range(1, 4):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        gradient = 2 * expected
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        update = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
        expected = expected * (1 - 0.1 * 0.1) - 0.1 * update
    # Three f32 updates of numbers below 2: a few units in the last place each.
    np.testing.assert_allclose(w.tolist(), expected, atol=3 * 4 * 2.0**-23 * 2)


def steps_of(optimizer, w, count=3):
    for _ in range(count):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    return w.tolist()


def test_rmsprop_follows_its_formula():
    w = bn.tensor([1.0, -2.0], requires_grad=True)
    found = steps_of(bn.optim.RMSprop([w], lr=0.1, alpha=0.9, momentum=0.5), w)
    expected, square, momentum = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for _ in range(3):
        gradient = 2 * expected
        square = 0.9 * square + 0.1 * gradient**2
        momentum = 0.5 * momentum + gradient / (np.sqrt(square) + 1e-8)
        expected = expected - 0.1 * momentum
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_adagrad_follows_its_formula():
    w = bn.tensor([1.0, -2.0], requires_grad=True)
    found = steps_of(bn.optim.Adagrad([w], lr=0.1), w)
    expected, total = np.array([1.0, -2.0]), np.zeros(2)
    for _ in range(3):
        gradient = 2 * expected
        total += gradient**2
        expected = expected - 0.1 * gradient / (np.sqrt(total) + 1e-10)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_lion_steps_by_signs():
    w = bn.tensor([1.0, -2.0], requires_grad=True)
    assert steps_of(bn.optim.Lion([w], lr=0.125), w, 2) == [0.75, -1.75]


def test_amsgrad_keeps_the_largest_second_moment():
    def last(amsgrad):
        w = bn.ones(1, requires_grad=True)
        optimizer = bn.optim.Adam([w], lr=0.1, betas=(0.9, 0.5), amsgrad=amsgrad)
        for gradient in (4.0, 0.5, 0.5):
            w.grad = bn.tensor([gradient])
            optimizer.step()
        return w.item()
    assert last(True) > last(False)  # smaller steps after the large gradient


def test_adafactor_and_muon_take_steps():
    w = bn.randn(8, 4, seed=1, requires_grad=True)
    bias = bn.ones(4, requires_grad=True)
    optimizer = bn.optim.Muon([w], lr=0.1, weight_decay=0, adamw=[bias])
    before = w.detach().clone()
    (w.sum() + bias.sum()).backward()
    optimizer.step()
    # A gradient of rank one stays one: every element moves alike.
    moved = (before - w.detach()).numpy()
    assert moved.min() > 0 and np.ptp(moved) < 1e-3
    assert bias.tolist() == pytest.approx([1 - 1e-3 - 1e-5] * 4, rel=1e-5)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 1e-3]
    with pytest.raises(bn.Error, match="match_rms_adamw"):
        bn.optim.Muon([w], adjust_lr_fn="other")
    factored = bn.optim.Adafactor([w], lr=0.1)
    w.sum().backward()
    factored.step()
    assert w.tolist() != before.tolist()


def test_every_optimizer_of_the_engine_has_a_class():
    import inspect
    from binade._binade import _optimizers
    for name, options in _optimizers().items():
        arguments = list(inspect.signature(getattr(bn.optim, name)).parameters)[1:]
        assert set(options) <= set(arguments), name
        # PyTorch's, in its order; moments are the engine's own.
        ordered = [option for option in options if option != "moments"]
        assert [a for a in arguments if a in ordered] == ordered, name


def test_nadam_looks_ahead():
    w = bn.tensor([1.0], requires_grad=True)
    optimizer = bn.optim.NAdam([w], lr=0.1, betas=(0.8, 0.9), momentum_decay=0.0)
    (2 * w).sum().backward()
    optimizer.step()
    # The first step: beta1 is 0.4 throughout, and gradient and moments agree.
    change = 0.1 * (2 * 0.6 / 0.6 + 0.4 / (1 - 0.16) * 0.2 * 2) / 2
    assert w.item() == pytest.approx(1 - change, rel=1e-6)


def test_moments_of_8_bits_take_a_quarter_of_the_memory():
    w = bn.randn(128, 128, seed=1, requires_grad=True)
    sizes = {}
    for moments in ("f32", "u8"):
        optimizer = bn.optim.AdamW([w], moments=moments)
        w.sum().backward()
        optimizer.step()
        sizes[moments] = sum(t.nbytes for t in optimizer.state_dict().values())
    assert sizes["u8"] < 0.27 * sizes["f32"]


def test_groups_and_learning_rates():
    a, b = bn.ones(1, requires_grad=True), bn.ones(1, requires_grad=True)
    optimizer = bn.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.5]
    optimizer.param_groups[0]["lr"] = 0.25
    (a + b).sum().backward()
    optimizer.step()
    assert a.tolist() == [0.75] and b.tolist() == [0.5]
    with pytest.raises(TypeError, match="unknown options"):
        bn.optim.SGD([{"params": [a], "momentun": 0.5}], lr=0.1)


def test_low_precision_parameters_have_masters():
    w = bn.ones(4, dtype=bn.bf16, requires_grad=True)
    optimizer = bn.optim.SGD([w], lr=2.0**-10)
    for _ in range(8):  # each update alone is less than half a unit of bf16's last place
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
    assert optimizer.master_of(w).tolist() == [1 - 2.0**-7] * 4
    assert w.tolist() == [1 - 2.0**-7] * 4


def test_split_masters_are_those_of_f32():
    states = []
    for masters in (True, "split"):
        w = bn.ones(4, dtype=bn.bf16, requires_grad=True)
        optimizer = bn.optim.AdamW([w], lr=1e-4, master_weights=masters)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        states.append(optimizer.state_dict()["0.master"].tolist())
    assert states[0] == states[1] != [1.0] * 4
    for bad in ("whole", None, 1):
        with pytest.raises(bn.Error, match=f"master_weights: expected True, False or 'split', found {bad!r}"):
            bn.optim.SGD([w], lr=0.1, master_weights=bad)


def test_options_of_a_wrong_type_are_named():
    w = bn.ones(4, requires_grad=True)
    with pytest.raises(bn.Error, match="momentum: expected a number, found None"):
        bn.optim.SGD([w], lr=0.1, momentum=None)
    with pytest.raises(bn.Error, match="betas: expected a tuple of numbers, found 0.9"):
        bn.optim.AdamW([w], betas=0.9)


def test_state_round_trip():
    w = bn.ones(2, requires_grad=True)
    optimizer = bn.optim.Adam([w])
    (w * w).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    other = bn.optim.Adam([bn.ones(2, requires_grad=True)])
    other.load_state_dict(state)
    for name, tensor in other.state_dict().items():
        assert tensor.tolist() == state[name].tolist()


def test_clipping_and_closures():
    w = bn.tensor([3.0, 4.0], requires_grad=True)
    optimizer = bn.optim.SGD([w], lr=0.0)

    def closure():
        loss = (w * w).sum() / 2
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 12.5
    assert bn.nn.utils.clip_grad_norm_([w], 1.0).item() == 5
    assert w.grad.tolist() == pytest.approx([0.6, 0.8])


def test_one_cycle():
    schedule = bn.optim.OneCycle(1.0, 10, pct_start=0.3)
    rates = [schedule.at(step) for step in range(10)]
    assert rates[0] == pytest.approx(1 / 25) and max(rates) == 1 and rates.index(1) == 2
    assert schedule.momentum_at(2) == pytest.approx(0.85)
    optimizer = bn.optim.SGD([bn.ones(1, requires_grad=True)], lr=0.1, momentum=0.9)
    optimizer.set_momentum(schedule.momentum_at(0))
    optimizer.set_lr(schedule.at(2))
    assert optimizer.param_groups[0]["lr"] == 1
    with pytest.raises(bn.Error, match="cos or linear"):
        bn.optim.OneCycle(1.0, 10, anneal_strategy="step")


def test_plateaus():
    optimizer = bn.optim.SGD([bn.ones(1, requires_grad=True)], lr=1.0)
    schedule = bn.optim.ReduceOnPlateau(optimizer, "max", factor=0.5, patience=0)
    for accuracy in (0.5, 0.6, bn.tensor([0.6])):
        schedule.step(accuracy)
    assert optimizer.param_groups[0]["lr"] == 0.5 and schedule.best == 0.6
    other = bn.optim.ReduceOnPlateau(optimizer, "max")
    other.load_state_dict(schedule.state_dict())
    assert other.best == 0.6


def test_averages_of_master_weights():
    w = bn.ones(1, dtype=bn.bf16, requires_grad=True)
    optimizer = bn.optim.SGD([w], lr=2.0**-10)
    ema = bn.optim.EMA([w], decay=0.5)
    for _ in range(2):
        w.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        ema.update(optimizer)
    assert ema.of(w).item() == 1 - 1.5 * 2.0**-10 and ema.updates == 2
    with pytest.raises(ValueError), ema.applied():
        raise ValueError
    assert w.item() == 1
    other = bn.optim.EMA([w])
    other.load_state_dict(ema.state_dict())
    assert other.of(w).tolist() == ema.of(w).tolist()


def test_schedule():
    schedule = bn.optim.Schedule("cosine", peak=1.0, total=100, warmup=10)
    assert schedule.at(0) == pytest.approx(0.1) and schedule.at(9) == 1
    assert schedule.at(1000) == pytest.approx(0.1)
