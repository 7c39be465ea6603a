import binade as bn
import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")

PEERS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn,
         "e5m2": ml_dtypes.float8_e5m2, "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
         "e2m1": ml_dtypes.float4_e2m1fn}


@pytest.mark.parametrize("name", PEERS)
def test_limits_are_those_of_ml_dtypes(name):
    ours, theirs = getattr(bn.formats, name), ml_dtypes.finfo(PEERS[name])
    assert ours.max == float(theirs.max) and ours.epsilon == float(theirs.eps)
    assert ours.min_normal == float(theirs.smallest_normal)
    assert ours.bits == theirs.bits


@pytest.mark.parametrize("name", PEERS)
def test_rounding_is_that_of_ml_dtypes(name):
    values = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    values *= np.float32(2) ** np.linspace(-12, 1, 4096).astype(np.float32)
    limit = np.float32(getattr(bn.formats, name).max)
    values = np.clip(values, -limit, limit)
    expected = values.astype(PEERS[name])
    codes = bn.formats.encode(values, name)
    assert codes.dtype == expected.dtype
    assert np.array_equal(codes.astype(np.float32), expected.astype(np.float32))
    assert np.array_equal(bn.formats.decode(codes, name), expected.astype(np.float32))


def test_rounding_modes():
    x = np.full(10000, 1 + 1 / 64, np.float32)  # an eighth of the way from 1 to 1.125 in e4m3
    assert set(bn.formats.round(x, "e4m3", "toward_zero")) == {1.0}
    drawn = bn.formats.round(x, "e4m3", "stochastic", seed=1)
    up = np.mean(drawn == 1.125)
    assert set(drawn) == {1.0, 1.125} and abs(up - 1 / 8) < 5 * np.sqrt(7 / 64 / 10000)
    assert bn.formats.round(np.float32([1e9]), "e5m2")[0] == 57344
    assert np.isinf(bn.formats.round(np.float32([1e9]), "e5m2", saturate=False)[0])
    with pytest.raises(bn.Error, match="nearest_even"):
        bn.formats.round(x, "e4m3", "up")
    with pytest.raises(bn.Error, match="e2m1"):
        bn.formats.encode(x, "e3m2")


def test_table():
    assert [f.name for f in bn.formats.all][:3] == ["f32", "tf32", "f16"]
    assert "57344" in bn.formats.table()
