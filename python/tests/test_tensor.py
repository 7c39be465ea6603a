import copy
import gc
import sys

import binade as bn
import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = {
    bn.f64: np.float64, bn.f32: np.float32, bn.f16: np.float16, bn.bf16: ml_dtypes.bfloat16,
    bn.e4m3: ml_dtypes.float8_e4m3fn, bn.e5m2: ml_dtypes.float8_e5m2, bn.i64: np.int64,
    bn.i32: np.int32, bn.u8: np.uint8, bn.bool: np.bool_,
}


@pytest.mark.parametrize("ours, theirs", DTYPES.items(), ids=lambda d: str(d))
def test_numpy_shares_memory_both_ways(ours, theirs):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(theirs)
    x = bn.from_numpy(array)
    assert x.dtype is ours and x.shape == (2, 3) and x.data_ptr() == array.ctypes.data
    back = x.numpy()
    assert back.dtype == array.dtype and back.ctypes.data == array.ctypes.data
    array[0, 0] = 1
    assert back[0, 0] == 1


@pytest.mark.parametrize("spelling", ["bf16", "bfloat16", bn.bfloat16, ml_dtypes.bfloat16,
                                      np.dtype(ml_dtypes.bfloat16)])
def test_dtypes_of_other_libraries_are_recognized(spelling):
    assert bn.zeros(1, dtype=spelling).dtype is bn.bf16
    assert bn.bf16 == spelling


def test_strided_arrays_are_views():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = bn.from_numpy(array.T[1:])
    assert x.shape == (3, 3) and x.stride() == (1, 4)
    assert x.tolist() == array.T[1:].tolist()
    assert np.shares_memory(x.numpy(), array)


def test_arrays_that_cannot_be_shared_are_refused_with_a_hint():
    array = np.arange(4, dtype=np.float32)
    for bad in (array[::-1], array.astype(">f4"), array.astype(np.complex64)):
        with pytest.raises(bn.Error, match="from_numpy: array"):
            bn.from_numpy(bad)
    array.flags.writeable = False
    with pytest.raises(bn.Error, match="read-only"):
        bn.from_numpy(array)
    assert bn.asarray(array).tolist() == [0, 1, 2, 3]


def test_an_array_outlives_its_tensor_and_the_reverse():
    x = bn.tensor([1.0, 2.0])
    view = x.numpy()
    del x
    gc.collect()
    churn = [bn.ones(2) for _ in range(100)]
    assert view.tolist() == [1, 2] and len(churn) == 100
    array = np.array([3.0, 4.0])
    references = sys.getrefcount(array)
    y = bn.from_numpy(array)
    assert sys.getrefcount(array) > references
    del y
    gc.collect()
    assert sys.getrefcount(array) == references


def test_numpy_functions_take_tensors():
    assert np.concatenate([bn.ones(2), np.zeros(1)]).tolist() == [1, 1, 0]
    assert (np.asarray(bn.ones(2), dtype=np.float64)).dtype == np.float64


def test_a_tensor_with_a_gradient_is_not_exported():
    for export in (bn.Tensor.numpy, np.asarray):
        with pytest.raises(bn.Error, match="detach"):
            export(bn.ones(1, requires_grad=True))


INDICES = [0, -1, slice(1, 3), slice(None, None, 2), (0, 1), (slice(None), 2), (..., 0),
           (None, 1), (1, None, slice(2)), (slice(None), slice(1, 4, 2)), slice(3, 1)]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(index):
    array = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    x = bn.from_numpy(array)
    expected = array[index]
    assert x[index].shape == expected.shape
    assert np.array_equal(x[index].numpy(), expected)
    if expected.size:
        x[index] = -1
        assert (array[index] == -1).all()


def test_index_tensors_and_masks():
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    x = bn.from_numpy(array.copy())
    rows = np.array([2, 0, -1])
    assert np.array_equal(x[bn.from_numpy(rows)].numpy(), array[rows])
    assert np.array_equal(x[[1, 3]].numpy(), array[[1, 3]])
    assert np.array_equal(x[:, bn.tensor([2, 0])].numpy(), array[:, [2, 0]])
    assert np.array_equal(x[x > 5].numpy(), array[array > 5])
    x[x > 5] = 0
    assert np.array_equal(x.numpy(), np.where(array > 5, 0, array))
    x[bn.tensor([0, 2])] = bn.ones(3)
    assert x[2].tolist() == [1, 1, 1]


def test_index_errors():
    x = bn.zeros(2, 3)
    for index in (2, (0, 0, 0), (0, -4)):
        with pytest.raises(IndexError):
            x[index]
    with pytest.raises(TypeError):
        x["a"]


def test_gradients_pass_through_indexing():
    x = bn.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (x[0] * 2 + x[:, 1]).sum().backward()
    assert x.grad.tolist() == [[2, 3], [0, 1]]


@pytest.mark.parametrize("dtype", [bn.f64, bn.f32, bn.f16, bn.bf16])
def test_numbers_do_not_change_a_type(dtype):
    for x in (bn.ones(2, dtype=dtype), bn.ones((), dtype=dtype)):
        results = (x + 1, 1 + x, x - 1.5, 3 - x, x * 2, 2 * x, x / 2, 1 / x, x ** 2, 2.0 ** x, -x)
        assert [r.dtype for r in results] == [dtype] * len(results)
        assert [float(np.ravel(r.tolist())[0]) for r in results] == [
            2, 2, -0.5, 2, 2, 2, 0.5, 1, 1, 2, -1]


def test_integers():
    x = bn.arange(4)
    assert x.dtype is bn.i64 and (x + 2).dtype is bn.i64 and (x * 0.5).dtype is bn.f32
    assert bn.arange(1, 7, 2).tolist() == [1, 3, 5]
    assert bn.tensor(2**53 + 1).item() == 2**53 + 1
    assert [i for i in range(10)][bn.tensor(3)] == 3


def test_comparisons_and_truth():
    x = bn.tensor([1.0, 2.0, 3.0])
    assert (x > 1.5).tolist() == [False, True, True]
    assert ((x > 1) & (x < 3)).tolist() == [False, True, False]
    assert (x == bn.tensor([1.0, 0.0, 3.0])).tolist() == [True, False, True]
    assert bool(bn.tensor(1)) and not bn.tensor(0.0)
    with pytest.raises(ValueError):
        bool(x)
    with pytest.raises(TypeError):
        x + "a"


def test_conversions():
    x = bn.tensor([1.7, -2.2])
    assert x.long().tolist() == [1, -2]
    assert x.to(bn.bfloat16).dtype is bn.bf16 and x.to("cpu", dtype="f16").dtype is bn.f16
    assert x.half().float().dtype is bn.f32
    assert x.to(x.dtype).data_ptr() == x.data_ptr()
    assert float(x[0]) == pytest.approx(1.7) and int(x[1]) == -2
    assert len(bn.zeros(3, 2)) == 3 and [r.shape for r in bn.zeros(3, 2)] == [(2,)] * 3


def test_text():
    assert repr(bn.tensor([1.0])) == "tensor([1.])"
    assert repr(bn.ones(1, dtype=bn.bf16, requires_grad=True)) == \
        "tensor([1.], dtype=bf16, requires_grad=True)"
    assert repr(bn.bf16) == "binade.bf16" and str(bn.zeros(1).device) == "cpu"


def test_copies():
    x = bn.ones(2, requires_grad=True)
    y = copy.deepcopy(x)
    assert y.requires_grad and y.data_ptr() != x.data_ptr()


def test_hash_is_identity():
    x = bn.ones(2)
    assert {x: 1}[x] == 1


def test_errors_carry_their_facts():
    with pytest.raises(bn.Error) as raised:
        bn.matmul(bn.ones(2, 3), bn.ones(2, 3))
    error = raised.value
    assert isinstance(error, RuntimeError)
    assert error.op == "matmul" and error.expected and error.found and error.op in str(error)
    with pytest.raises(TypeError):
        bn.matmul(1, 2)


def test_memory_is_counted():
    gc.collect()
    before = bn.memory_allocated()
    x = bn.zeros(1000)
    assert bn.memory_allocated() - before == x.nbytes == 4000
    foreign = bn.from_numpy(np.zeros(1000, np.float32))
    assert bn.memory_allocated() - before == 4000 and foreign.numel() == 1000
    del x
    assert bn.memory_allocated() == before


def test_fp8_tensors_are_printed():
    x = bn.from_numpy(np.array([1, -2.5], ml_dtypes.float8_e4m3fn))
    assert x.tolist() == [1, -2.5] and repr(x) == "tensor([ 1. , -2.5], dtype=e4m3)"


def test_numbers_are_formatted():
    assert f"{bn.tensor([2.5]).sum():.2f}" == "2.50" and "tensor" in f"{bn.ones(1)}"
    with pytest.raises(TypeError):
        f"{bn.ones(2):.2f}"


def test_patterns():
    assert bn.eye(2).tolist() == [[1, 0], [0, 1]] and bn.eye(1, 2).shape == (1, 2)
    assert bn.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert bn.ones_like(bn.zeros(2, dtype=bn.bf16)).dtype is bn.bf16
    assert bn.full_like(bn.zeros(2), 3).tolist() == [3, 3]
    assert bn.allclose(bn.ones(2), bn.ones(2)) and not bn.allclose(bn.ones(1), bn.zeros(1))
