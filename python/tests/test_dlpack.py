import gc

import binade as bn
import numpy as np
import pytest

DTYPES = [bn.f64, bn.f32, bn.f16, bn.bf16, bn.e4m3, bn.e5m2, bn.i64, bn.i32, bn.u8,
          bn.bool]


def test_numpy_round_trip_shares_memory():
    for dtype in ("f64", "f32", "f16", "i64", "i32", "u8"):
        x = bn.zeros(2, 3, dtype=dtype)
        array = np.from_dlpack(x)
        assert array.ctypes.data == x.data_ptr() and array.shape == (2, 3)
        assert bn.from_dlpack(array.copy()).dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_own_round_trip(dtype):
    x = bn.zeros(2, 3, dtype=dtype)
    y = bn.from_dlpack(x)
    assert y.dtype is dtype and y.data_ptr() == x.data_ptr() and y.stride() == (3, 1)


def test_strides_travel():
    x = bn.arange(6).reshape(2, 3).transpose(0, 1)
    assert np.array_equal(np.from_dlpack(x), x.numpy())
    y = bn.from_dlpack(x)
    assert y.stride() == (1, 3) and y.tolist() == x.tolist()


def test_a_capsule_is_used_once():
    capsule = bn.ones(2).__dlpack__()
    assert bn.from_dlpack(capsule).tolist() == [1, 1]
    with pytest.raises(bn.Error, match="not used yet"):
        bn.from_dlpack(capsule)


def test_an_unused_capsule_frees_its_tensor():
    gc.collect()
    before = bn.memory_allocated()
    for versioned in (None, (1, 0)):
        capsule = bn.zeros(1000).__dlpack__(max_version=versioned)
        assert bn.memory_allocated() == before + 4000
        del capsule
        gc.collect()
        assert bn.memory_allocated() == before


def test_the_last_owner_frees_the_memory():
    gc.collect()
    before = bn.memory_allocated()
    x = bn.zeros(1000)
    y = bn.from_dlpack(x)
    del x
    gc.collect()
    assert bn.memory_allocated() == before + 4000
    y[0] = 1
    del y
    gc.collect()
    assert bn.memory_allocated() == before


def test_device_and_options():
    x = bn.ones(2)
    assert tuple(x.__dlpack_device__()) == (1, 0)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    assert bn.from_dlpack(x.__dlpack__(copy=True)).data_ptr() != x.data_ptr()
    with pytest.raises(bn.Error, match="gradient"):
        bn.ones(1, requires_grad=True).__dlpack__()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_torch_shares_memory_both_ways(dtype):
    torch = pytest.importorskip("torch")
    x = bn.ones(2, 3).to(dtype) if dtype not in (bn.e4m3, bn.e5m2) else bn.zeros(2, 3, dtype=dtype)
    try:
        theirs = torch.from_dlpack(x)
    except (RuntimeError, BufferError) as error:
        pytest.skip(f"this torch does not import {dtype} through DLPack: {error}")
    assert theirs.data_ptr() == x.data_ptr() and tuple(theirs.shape) == (2, 3)
    assert x.dtype == theirs.dtype
    back = bn.from_dlpack(theirs)
    assert back.data_ptr() == x.data_ptr() and back.dtype is dtype


def test_torch_owns_what_binade_views():
    torch = pytest.importorskip("torch")
    y = bn.from_dlpack(torch.arange(4, dtype=torch.float32) * 2)
    gc.collect()
    assert y.tolist() == [0, 2, 4, 6]
