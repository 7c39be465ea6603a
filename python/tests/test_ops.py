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
    for name in ("sum", "mean", "amax", "amin", "prod"):
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


def test_moving_elements():
    x = bn.arange(6).reshape(2, 3)
    array = x.numpy()
    assert np.array_equal(x.flip(1).numpy(), np.flip(array, 1))
    assert np.array_equal(x.roll(1, 0).numpy(), np.roll(array, 1, 0))
    assert np.array_equal(x.roll(2).numpy(), np.roll(array, 2))
    assert np.array_equal(x.repeat(2, 1).numpy(), np.tile(array, (2, 1)))
    assert np.array_equal(bn.tril(x, -1).numpy(), np.tril(array, -1))
    assert np.array_equal(bn.triu(x).numpy(), np.triu(array))
    assert np.array_equal(bn.pad(x, (1, 2), value=9).numpy(),
                          np.pad(array, ((0, 0), (1, 2)), constant_values=9))
    assert np.array_equal(bn.pad(x.float(), [1, 1], mode="reflect").numpy(),
                          np.pad(array, ((0, 0), (1, 1)), mode="reflect"))
    assert [p.shape for p in x.chunk(2, dim=1)] == [(2, 2), (2, 1)]
    with pytest.raises(bn.Error, match="constant, reflect, replicate"):
        bn.pad(x, [1, 1], mode="mirror")


def test_order():
    x = bn.tensor([[3.0, float("nan"), 1.0], [2.0, 2.0, 5.0]])
    values, indices = x.sort(descending=True)
    assert indices.tolist() == [[1, 0, 2], [2, 0, 1]] and values[1].tolist() == [5, 2, 2]
    assert bn.argsort(x).tolist() == [[2, 0, 1], [0, 1, 2]]
    assert x.topk(1, dim=0, largest=False)[1].tolist() == [[1, 1, 0]]
    assert bn.any(x > 4, dim=1).tolist() == [False, True] and not (x > 4).all().item()
    assert x.masked_fill(bn.isnan(x), 0)[0].tolist() == [3, 0, 1]
    assert bn.masked_select(x, x == 2).tolist() == [2, 2]
    assert bn.nonzero(x == 2).tolist() == [[1, 0], [1, 1]]
    assert bn.one_hot(bn.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    drawn = bn.multinomial(bn.tensor([0.0, 1.0, 0.0]), 4, replacement=True)
    assert drawn.tolist() == [1] * 4


def test_remainders_have_the_sign_of_the_divisor():
    array = np.array([-3.5, 2.0, 5.5], np.float32)
    x = bn.from_numpy(array)
    assert (x % 2).tolist() == np.mod(array, 2).tolist()
    assert (7 % x).tolist() == np.mod(np.float32(7), array).tolist()
    assert bn.remainder(x, -x).tolist() == [0, 0, 0]


def test_windows():
    x = bn.arange(16).float().reshape(1, 1, 4, 4)
    columns = bn.unfold(x, 2, stride=2)
    assert columns.shape == (1, 4, 4) and columns[0, :, 0].tolist() == [0, 1, 4, 5]
    assert bn.fold(columns, (4, 4), 2, stride=2).tolist() == x.tolist()
    assert bn.max_pool(x, 3, stride=2).shape == (1, 1, 1, 1)
    assert bn.max_pool(x, 3, stride=2, ceil_mode=True).flatten().tolist() == [10, 11, 14, 15]
    assert bn.adaptive_avg_pool(x, 1).item() == 7.5
    assert bn.nn.functional.adaptive_max_pool2d(x, (2, 1)).flatten().tolist() == [7, 15]
    assert bn.instance_norm(x).mean().item() == pytest.approx(0, abs=1e-6)


def test_attention_of_sequences_is_that_of_each():
    q, k, v = (bn.randn(6, 2, 4, seed=i) for i in range(3))
    packed = bn.varlen_attention(q, k, v, [0, 2, 6], is_causal=True)
    for first, last in ((0, 2), (2, 6)):
        one = [t[first:last].transpose(0, 1).unsqueeze(0) for t in (q, k, v)]
        expected = bn.scaled_dot_product_attention(*one, is_causal=True)
        np.testing.assert_allclose(packed[first:last].numpy(),
                                   expected[0].transpose(0, 1).numpy(), rtol=1e-5, atol=1e-6)


def test_attention_with_a_mask():
    q, k, v = (bn.randn(1, 1, 3, 4, seed=i) for i in range(3))
    causal = bn.tril(bn.ones(3, 3)) > 0
    np.testing.assert_allclose(
        bn.scaled_dot_product_attention(q, k, v, causal).numpy(),
        bn.scaled_dot_product_attention(q, k, v, is_causal=True).numpy(), rtol=1e-5, atol=1e-6)


def test_ctc_loss_of_one_path():
    # Two frames, the label 1 twice: paths 1 1, 1 _, _ 1 of two equally likely classes.
    log_probs = bn.log_softmax(bn.zeros(2, 1, 2), -1)
    lengths = bn.tensor([2]), [1]
    loss = bn.nn.CTCLoss(reduction="sum")(log_probs, bn.tensor([[1]]), *lengths)
    assert loss.item() == pytest.approx(-np.log(3 / 4))


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


def test_errors_name_arguments_as_python_does():
    x = bn.ones(2, 3)
    cases = {"dim": lambda: bn.softmax(x, dim=5), "input": lambda: bn.exp(bn.arange(3)),
             "repeats": lambda: x.repeat(2)}
    for argument, call in cases.items():
        with pytest.raises(bn.Error) as raised:
            call()
        assert raised.value.argument == argument
        assert f": {argument}: expected" in str(raised.value)
