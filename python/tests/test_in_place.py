import binade as bn
import numpy as np
import pytest


def test_a_plain_loop_trains():
    x = bn.linspace(-1, 1, 16).reshape(16, 1)
    weight = bn.zeros(1, requires_grad=True)
    bias = bn.zeros(1, requires_grad=True)
    for _ in range(200):
        loss = ((x * weight + bias - (3 * x - 1)) ** 2).mean()
        weight.grad = bias.grad = None
        loss.backward()
        with bn.no_grad():
            for p in (weight, bias):
                p -= 0.3 * p.grad
    assert weight.item() == pytest.approx(3, abs=1e-3) and bias.item() == pytest.approx(-1, abs=1e-3)
    assert weight.requires_grad and weight.is_leaf


def test_parameters_of_the_engine_change_where_they_are():
    layer = bn.nn.Linear(2, 2)
    before, address = layer.weight.tolist(), layer.weight.data_ptr()
    with bn.no_grad():
        for p in layer.parameters():
            p *= 2
    assert layer.weight.data_ptr() == address
    assert layer.weight.tolist() == (np.array(before, np.float32) * 2).tolist()


def test_other_names_and_views_see_a_write():
    x = bn.zeros(2, 3)
    same, row, column = x, x[1], x[:, 0]
    assert x.zero_() is x and x.copy_(bn.zeros(3)) is x
    x += 1
    row *= 5
    column -= 1
    assert same is x and x.tolist() == [[0, 1, 1], [4, 5, 5]]


@pytest.mark.parametrize("write", [
    lambda p: p.__iadd__(1), lambda p: p.__isub__(p.detach()), lambda p: p.mul_(2),
    lambda p: p.__setitem__(0, 5), lambda p: p.zero_(), lambda p: p.fill_(4),
    lambda p: p.copy_(bn.zeros(3)), lambda p: p.uniform_(0, 1)])
def test_leaves_with_a_gradient_are_written_inside_no_grad_only(write):
    p = bn.ones(3, requires_grad=True)
    with pytest.raises(bn.Error):
        write(p)
    assert p.tolist() == [1, 1, 1]
    with bn.no_grad():
        write(p)
    assert p.tolist() != [1, 1, 1] and p.requires_grad


def test_a_type_that_cannot_hold_the_result_is_refused():
    x = bn.arange(3)
    with pytest.raises(bn.Error, match="f32"):
        x *= 0.5
    with pytest.raises(bn.Error, match=r"\[3\]"):
        x += bn.ones(2, 3, dtype=bn.i64)
    assert x.tolist() == [0, 1, 2]
    y = bn.ones(3, dtype=bn.bf16)
    y += bn.ones(3)
    assert y.dtype is bn.bf16 and y.tolist() == [2, 2, 2]


def test_a_running_sum_keeps_its_gradient():
    w = bn.tensor([1.0, 2.0], requires_grad=True)
    total = bn.zeros(2)
    for power in (1, 2, 3):
        total += w ** power
    total.sum().backward()
    assert w.grad.tolist() == [6, 17]


def test_a_tensor_times_itself_keeps_the_values_that_its_gradient_needs():
    w = bn.tensor([1.0, -3.0], requires_grad=True)
    square = w * 2
    square *= square
    square.sum().backward()
    assert w.grad.tolist() == [8, -24]


@pytest.mark.parametrize("array", [np.array([2.0, 3.0]), np.array([2.0, 3.0], np.float32),
                                   np.array([2, 3])], ids=lambda a: a.dtype.name)
def test_arrays_keep_the_graph_on_either_side(array):
    results = {
        "a * w": ([2, 3], lambda w: array * w), "w * a": ([2, 3], lambda w: w * array),
        "a - w": ([-1, -1], lambda w: array - w), "a / w": ([-2, -3], lambda w: array / w),
        "w + a": ([1, 1], lambda w: w + array)}
    for name, (gradient, function) in results.items():
        w = bn.ones(2, requires_grad=True)
        y = function(w)
        assert isinstance(y, bn.Tensor), name
        y.sum().backward()
        assert w.grad.tolist() == gradient, name


def test_arrays_are_copied_into_a_graph():
    w, array = bn.ones(2, requires_grad=True), np.array([2.0, 3.0], np.float32)
    y = w * array
    array[:] = 0
    y.sum().backward()
    assert w.grad.tolist() == [2, 3]


def test_numbers_of_numpy_are_numbers():
    x = bn.ones(2, dtype=bn.bf16)
    for number in (np.float32(2), np.float64(2), np.int64(2)):
        for y in (x * number, number * x):
            assert y.dtype is bn.bf16 and y.tolist() == [2, 2]


def test_random_indices_select_and_write_what_numpy_does():
    random = np.random.default_rng(7)
    for _ in range(400):
        shape = tuple(random.integers(1, 5, random.integers(1, 5)))
        array = random.integers(-9, 9, shape).astype(random.choice(["f4", "f8", "i8"]))
        index = _random_index(random, shape)
        x = bn.tensor(array)
        try:
            expected = array[index]
        except IndexError:
            with pytest.raises(IndexError):
                x[index]
            continue
        try:
            found = x[index]
        except IndexError as error:  # NumPy and PyTorch disagree
            assert "PyTorch" in str(error)
            continue
        assert found.shape == expected.shape and found.tolist() == expected.tolist(), (shape, index)
        values = random.integers(10, 99, expected.shape).astype(array.dtype)
        x[index] = bn.tensor(values)
        array[index] = values
        assert x.tolist() == array.tolist(), (shape, index)


def _random_index(random, shape):
    lines, items = int(random.integers(1, 3)), []
    for size in shape[:random.integers(1, len(shape) + 1)]:
        kind = random.integers(0, 6)
        if kind == 0:
            items.append(int(random.integers(-size, size)))
        elif kind == 1:
            items.append(random.integers(-size, size, (3,)))
        elif kind == 2:
            items.append(random.integers(-size, size, (lines, 1)))
        elif kind == 3:
            items.append(random.random(size) < 0.6)
        else:
            start, stop = sorted(random.integers(0, size + 1, 2))
            items.append(slice(int(start), int(stop), int(random.integers(1, 3))))
        if random.random() < 0.15:
            items.append(None)
    if random.random() < 0.2:
        items.insert(int(random.integers(0, len(items) + 1)), Ellipsis)
    return tuple(items)


def test_writes_whose_source_overlaps_read_it_first():
    random = np.random.default_rng(3)
    for _ in range(300):
        array = random.standard_normal((5, 6)).astype(np.float32)
        x = bn.tensor(array)
        rows, columns = (random.integers(1, size + 1) for size in array.shape)
        if random.random() < 0.2:
            rows = columns = min(rows, columns)
        target = _window(random, array.shape, rows, columns)
        source = _window(random, array.shape, rows, columns)
        expected = array.copy()
        if random.random() < 0.5:
            x[target] = x[source]
            expected[target] = array[source]
        else:
            x[target] += x[source]
            expected[target] += array[source]
        assert np.array_equal(x.numpy(), expected), (target, source)


def _window(random, shape, rows, columns):
    starts = [random.integers(0, size - length + 1) for size, length in zip(shape, (rows, columns))]
    return tuple(slice(int(s), int(s + n)) for s, n in zip(starts, (rows, columns)))
