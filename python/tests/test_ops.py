import binade as bn
import numpy as np
import pytest

# Names of the op table that Python spells otherwise, or has as several functions.
ALIASES = {"checkpoint": "checkpoint", "custom": "autograd.Function", "cast": "cast"}

UNARY = {"exp": np.exp, "log1p": np.log1p, "tanh": np.tanh, "sqrt": np.sqrt, "floor": np.floor,
         "round": np.round, "square": np.square, "sin": np.sin, "sign": np.sign, "abs": np.abs}


def test_every_op_of_the_table_is_there():
    missing = []
    for name in bn.amp.ops():
        target = bn
        for part in ALIASES.get(name, name).split("."):
            target = getattr(target, part, None)
        if target is None:
            missing.append(name)
    assert missing == []


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    array = np.linspace(0.1, 2.6, 16, dtype=np.float32)
    x = bn.from_numpy(array)
    expected = UNARY[name](array.astype(np.float64))
    for result in (getattr(bn, name)(x), getattr(x, name)()):
        # f32 results are within 2 units in the last place of the exact ones.
        np.testing.assert_allclose(result.numpy(), expected, rtol=2 * 2.0**-23)


def test_reductions():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = bn.from_numpy(array)
    for name in ("sum", "mean", "max", "min", "prod"):
        method, expected = getattr(x, name), getattr(np, name)
        assert method().item() == expected(array)
        assert np.array_equal(method(dim=1).numpy(), expected(array, axis=1))
        assert method(dim=(0, 1), keepdim=True).shape == (1, 1)
    assert x.argmax(dim=1).tolist() == [3, 3, 3]
    assert x.var(dim=0, correction=0).tolist() == array.var(axis=0).tolist()
    assert x.std().item() == pytest.approx(array.std(ddof=1))
    assert x.sum(dtype=bn.f64).dtype is bn.f64


def test_shapes():
    x = bn.arange(6)
    assert x.reshape(2, 3).shape == x.view((2, 3)).shape == (2, 3)
    assert x.reshape(2, -1).permute(1, 0).shape == (3, 2)
    assert x.reshape(2, 3).T.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert bn.cat([x, x]).shape == (12,) and bn.stack([x, x], dim=1).shape == (6, 2)
    assert [p.tolist() for p in x.split(4)] == [[0, 1, 2, 3], [4, 5]]
    assert [p.shape for p in x.split([1, 5])] == [(1,), (5,)]
    assert bn.ones(3, 1).expand(3, 4).shape == (3, 4)


def test_products():
    a, b = np.random.default_rng(0).standard_normal((2, 8, 8)).astype(np.float32)
    x, y = bn.from_numpy(a), bn.from_numpy(b)
    # The error of an f32 sum of 8 products is at most 8 eps |a| |b|.
    bound = 8 * 2.0**-23 * (np.abs(a) @ np.abs(b)).max()
    np.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=0, atol=bound)
    np.testing.assert_allclose(bn.einsum("ij,jk->ik", x, y).numpy(), a @ b, rtol=0, atol=bound)
    np.testing.assert_allclose(bn.linear(x, y).numpy(), a @ b.T, rtol=0, atol=bound)
    assert bn.where(x > 0, x, y).shape == (8, 8)
    assert bn.addmm(bn.zeros(8), x, y, alpha=2).shape == (8, 8)


def test_functional_losses():
    F = bn.nn.functional
    logits = bn.zeros(2, 4)
    target = bn.tensor([1, 3])
    assert F.cross_entropy(logits, target).item() == pytest.approx(np.log(4))
    assert F.cross_entropy(logits, target, reduction="none").shape == (2,)
    assert F.mse_loss(bn.ones(3), bn.zeros(3), reduction="sum").item() == 3
    assert F.binary_cross_entropy_with_logits(bn.zeros(2), bn.ones(2)).item() == \
        pytest.approx(np.log(2))
    with pytest.raises(bn.Error, match="mean, sum, none"):
        F.mse_loss(logits, logits, reduction="average")


def test_random_numbers_are_functions_of_the_seed():
    assert bn.randn(4, seed=1).tolist() == bn.randn(4, seed=1).tolist()
    assert bn.randn(4, seed=1).tolist() != bn.randn(4, seed=2).tolist()
    first = [bn.rand(3).tolist(), bn.rand(3).tolist()]
    bn.manual_seed(0)
    assert [bn.rand(3).tolist(), bn.rand(3).tolist()] == first and first[0] != first[1]


def test_threads_run_kernels_at_the_same_time():
    import threading
    x = bn.ones(64, 64)
    results = []
    threads = [threading.Thread(target=lambda: results.append((x @ x).sum().item()))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [64.0**3] * 4
