import io
import os
import pickle
import random

import binade as bn
import pytest


def test_states_are_saved_and_loaded(tmp_path):
    model = bn.nn.Sequential(bn.nn.Linear(3, 2), bn.nn.BatchNorm1d(2))
    optimizer = bn.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(bn.randn(4, 3, seed=1)).square().sum().backward()
        optimizer.step()
    path = tmp_path / "state.bn"
    bn.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 2}, path)
    state = bn.load(path, map_location="cpu")
    other = bn.nn.Sequential(bn.nn.Linear(3, 2), bn.nn.BatchNorm1d(2))
    other.load_state_dict(state["model"])
    bn.optim.AdamW(other.parameters(), lr=0.1).load_state_dict(state["optimizer"])
    x = bn.ones(1, 3)
    assert other.eval()(x).tolist() == model.eval()(x).tolist() and state["step"] == 2
    assert os.listdir(tmp_path) == ["state.bn"]


@pytest.mark.parametrize("dtype", [bn.bf16, bn.e4m3, bn.i64, bn.bool], ids=str)
def test_types_and_structures_survive(dtype):
    file = io.BytesIO()
    value = [bn.zeros(2, 3, dtype=dtype), (1, 2.5, "text", None), {"x": bn.nn.Parameter(bn.ones(2))}]
    bn.save(value, file)
    file.seek(0)
    first, numbers, named = bn.load(file)
    assert first.dtype is dtype and first.shape == (2, 3) and numbers == (1, 2.5, "text", None)
    assert isinstance(named["x"], bn.nn.Parameter) and named["x"].requires_grad


class Code:
    ran = False

    def __reduce__(self):
        return setattr, (Code, "ran", True)


def test_code_in_a_file_is_refused(tmp_path):
    path = tmp_path / "code.bn"
    bn.save({"a": Code()}, path)
    with pytest.raises(bn.Error, match="setattr"):
        bn.load(path)
    assert not Code.ran
    bn.load(path, weights_only=False)
    assert Code.ran


def test_a_whole_model_needs_trust(tmp_path):
    path = tmp_path / "model.bn"
    bn.save(bn.nn.Linear(2, 3), path)
    with pytest.raises(bn.Error, match="weights_only"):
        bn.load(path)
    assert bn.load(path, weights_only=False)(bn.ones(1, 2)).shape == (1, 3)


def test_other_and_damaged_files_are_refused(tmp_path):
    path = tmp_path / "x.bn"
    bn.save({"a": bn.ones(100)}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    with pytest.raises(bn.Error, match="complete"):
        bn.load(path)
    path.write_bytes(pickle.dumps({}))
    with pytest.raises(bn.Error, match="binade.save"):
        bn.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.bn"
    bn.save(1, path)
    with pytest.raises(Exception):
        bn.save(lambda: 0, path)
    assert bn.load(path) == 1 and os.listdir(tmp_path) == ["x.bn"]


def test_damaged_files_are_refused_as_such():
    """Whatever bytes stand in a file, reading it ends in an Error or in values."""
    file = io.BytesIO()
    bn.save({"weight": bn.ones(2, 3), "bf16": bn.ones(2, dtype=bn.bf16), "step": 2, "text": "x"}, file)
    whole, numbers = file.getvalue(), random.Random(0)
    refused = 0
    for i in range(90):
        damaged = bytearray(whole[:numbers.randrange(9, len(whole))] if i % 3 == 0 else whole)
        if i % 3:
            for _ in range(i % 5 + 1):
                damaged[numbers.randrange(8, len(damaged))] = numbers.randrange(256)
        try:
            bn.load(io.BytesIO(bytes(damaged)))
        except bn.Error:
            refused += 1
    assert refused > 45
