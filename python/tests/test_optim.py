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


def test_schedule():
    schedule = bn.optim.Schedule("cosine", peak=1.0, total=100, warmup=10)
    assert schedule.at(0) == pytest.approx(0.1) and schedule.at(9) == 1
    assert schedule.at(1000) == pytest.approx(0.1)
