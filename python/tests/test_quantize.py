import binade as bn
import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")


def data(rows=8, columns=256):
    return np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize("format", ["e4m3", "e5m2", "e4m3fnuz", "e2m1"])
@pytest.mark.parametrize("recipe, groups", [("current", (1, 1)), ("row", (8, 1)),
                                            ("block", (8, 2)), ("mx", (8, 8)),
                                            ("delayed", (1, 1)), ("none", (1, 1))])
def test_values_are_codes_times_scales(recipe, groups, format):
    x = data()
    q = bn.quantize(x, recipe, format)
    assert q.scales.shape == groups and q.codes.shape == x.shape
    scales = q.scales.astype(np.float32)
    wide = np.repeat(np.repeat(scales, 8 // groups[0], 0), 256 // groups[1], 1)
    assert np.array_equal(q.values, q.codes.astype(np.float32) * wide)
    noise = np.sum((x - q.values).astype(np.float64)**2)
    assert q.sqnr == pytest.approx(10 * np.log10(np.sum(x.astype(np.float64)**2) / noise))


@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
def test_current_scaling_is_a_cast_by_ml_dtypes(format):
    x = data()
    q = bn.quantize(x, "current", format)
    largest = np.float32(getattr(bn.formats, format).max)
    scale = largest / np.abs(x).max()
    dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[format]
    expected = np.clip(x * scale, -largest, largest).astype(dtype)
    assert q.codes.dtype == dtype
    assert np.array_equal(q.codes.view(np.uint8), expected.view(np.uint8))
    assert q.saturated == 0


@pytest.mark.parametrize("recipe, element, emax", [
    ("mxfp8", ml_dtypes.float8_e4m3fn, 8), ("mxfp8_e5m2", ml_dtypes.float8_e5m2, 15),
    ("mxfp4", ml_dtypes.float4_e2m1fn, 2)])
def test_mx_follows_its_specification(recipe, element, emax):
    x = data()
    q = bn.quantize(x, recipe)
    groups = x.reshape(8, 8, 32)
    exponent = np.floor(np.log2(np.abs(groups).max(-1))) - emax
    assert np.array_equal(q.scales.astype(np.float32), 2.0**exponent)
    largest = np.float32(ml_dtypes.finfo(element).max)
    scaled = np.clip(groups / 2.0**exponent[..., None].astype(np.float32), -largest, largest)
    expected = scaled.astype(element).astype(np.float32).reshape(8, 256)
    assert np.array_equal(q.codes.astype(np.float32), expected)


def test_counts():
    x = np.array([[1e-9, 1.0, 1000.0, -1000.0]], np.float32)
    q = bn.quantize(x, "none", "e4m3")
    assert (q.saturated, q.underflowed) == (2, 1)
    assert q.values.tolist() == [[0.0, 1.0, 448.0, -448.0]]
    assert bn.quantize(x, "bf16").format == "bf16"
    assert bn.quantize(np.ones((2, 2), np.float32), "f16").sqnr == float("inf")


def test_delayed_scales_come_from_an_amax():
    x = data()
    q = bn.quantize(x, bn.amp.Recipe("delayed, margin = 1"), amax=1.0)
    assert q.scales.item() == pytest.approx(2 / 448) and q.saturated > 0
    assert bn.quantize(x, "delayed", scale=4.0).scales.item() == 0.25
    q = bn.quantize(x, 'delayed, input.rule = "power_of_two"', amax=3.0)
    assert q.scales.item() == 1 / 128  # 448 / 3, rounded down to a power of two


def test_recipes_know_roles():
    x = data(256, 256)
    recipe = bn.amp.Recipe('block, gradient.group = [1, 64], weight.rule = "largest"')
    assert bn.quantize(x, recipe).scales.shape == (256, 2)
    assert bn.quantize(x, recipe, role="weight").scales.shape == (2, 2)
    q = bn.quantize(x, recipe, role="gradient")
    assert q.scales.shape == (256, 4) and q.format == "e5m2"
    assert bn.quantize(x, recipe, "e2m1", role="gradient").format == "e2m1"
    exact = bn.quantize(x, "row, eps = 1000")
    assert np.allclose(exact.scales, 1000 / 448)
    with pytest.raises(bn.Error, match="gradient"):
        bn.quantize(x, 'row, matmuls = ["forward"], gradient = false', role="gradient")


def test_shapes_and_tensors():
    assert bn.quantize(np.float32(3)).values.shape == ()
    assert bn.quantize(data().reshape(2, 4, 256), "row").scales.shape == (8, 1)
    q = bn.quantize(bn.from_numpy(data()).bfloat16(), "mx")
    assert isinstance(q.values, bn.Tensor)
    assert "SQNR" in repr(q)


def test_block_groups_of_weights():
    assert bn.quantize(data(256, 256), "block", role="weight").scales.shape == (2, 2)


RECIPES = ["none", "delayed", "current", "row", "block", "mx", "mxfp8", "mxfp8_e5m2", "mxfp4",
           "bf16", "f16", "e4m3", "e5m2", "e4m3fnuz", "e2m1"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_any_array(recipe):
    x = data(6, 40)
    dense = bn.quantize(np.ascontiguousarray(x[::2, ::-1]), recipe)
    strided = bn.quantize(x[::2, ::-1], recipe)
    assert np.array_equal(strided.values, dense.values) and strided.sqnr == dense.sqnr
    for shape in ((0,), (0, 4), (4, 0), (2, 0, 3)):
        q = bn.quantize(np.zeros(shape, np.float32), recipe)
        assert q.values.shape == q.codes.shape == shape and q.saturated == q.underflowed == 0
    assert bn.quantize(np.float64(1.0), recipe).values == 1
    assert bn.quantize([[1.0, 2.0]], recipe).values.tolist() == [[1, 2]]
    zeros = bn.quantize(np.zeros((2, 2), np.float32), recipe)
    assert zeros.values.tolist() == [[0, 0], [0, 0]] and zeros.sqnr == float("inf")


@pytest.mark.parametrize("recipe", RECIPES)
def test_values_that_are_not_finite(recipe):
    x = data(4, 64)
    x[0, 0], x[1, 1], x[2, 2] = np.nan, np.inf, -np.inf
    q = bn.quantize(x, recipe)
    assert q.values[3].tolist() == bn.quantize(x[3:], recipe).values[0].tolist() or \
        q.scales.size == 1
    if not recipe.startswith("mx"):  # a group of MX with NaN is NaN
        assert not np.isnan(q.sqnr)
    if recipe != "mxfp4" and recipe != "e2m1":  # e2m1 has no NaN
        assert np.isnan(q.values[0, 0])
        assert not np.isfinite(q.values[1, 1]) and not np.isfinite(q.values[2, 2])


@pytest.mark.parametrize("recipe", RECIPES)
def test_torch_tensors(recipe):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(data())
    expected = bn.quantize(data(), recipe).values
    for given in (x, x.requires_grad_(), x.detach().T.contiguous().T):
        q = bn.quantize(given, recipe)
        assert isinstance(q.values, torch.Tensor) and np.array_equal(q.values.numpy(), expected)
    assert bn.quantize(torch.ones(()), recipe).values.shape == ()


def test_misuse_is_refused():
    x = data()
    for options, word in (({"role": "weights"}, "gradient"), ({"recipe": "mxfp9"}, "mxfp9"),
                          ({"recipe": "mxfp4", "format": "e4m3"}, "e2m1")):
        with pytest.raises(bn.Error, match=word):
            bn.quantize(x, **options)
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        for format in ("e4m3", "e2m1"):
            with pytest.raises(bn.Error, match="scale"):
                bn.quantize(x, "delayed", format, scale=scale)
