import os
import subprocess
import sys

import binade as bn
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TEXTS = ["héllo", "", None, "two\nlines"]


def write(path, texts=TEXTS, **options):
    numbers = list(range(len(texts)))
    pq.write_table(pa.table({"id": numbers, "text": texts, "other": ["x"] * len(texts)}), path, **options)
    return path


def ids_of(path, dtype="<u2"):
    data = open(path, "rb").read()
    assert np.frombuffer(data[:12], "<i4").tolist()[2] == len(data[1024:]) // np.dtype(dtype).itemsize
    return np.frombuffer(data[1024:], dtype).tolist()


def test_texts_end_with_a_newline_or_an_id(tmp_path):
    file, out = write(tmp_path / "a.parquet"), tmp_path / "a.bin"
    assert bn.tokenize_parquet(file, out) == 18
    assert bytes(ids_of(out)) == "héllo\n\ntwo\nlines\n".encode()
    assert bn.tokenize_parquet(str(file), out, bn.Tokenizer(), eos=7) == 18
    assert bytes(ids_of(out)) == "héllo\7\7two\nlines\7".encode()
    assert bn.tokenize_parquet(file, out, column="other", eos=0) == 8
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "a.parquet"]


def test_folders_and_many_row_groups(tmp_path):
    texts = [f"text {i} " + "x" * (i % 7) for i in range(3001)]
    os.mkdir(tmp_path / "in")
    write(tmp_path / "in/b.parquet", texts[1000:], row_group_size=100)
    write(tmp_path / "in/a.parquet", texts[:1000])
    bn.tokenize_parquet([tmp_path / "in"], tmp_path / "t.bin")
    assert bytes(ids_of(tmp_path / "t.bin")).decode() == "".join(text + "\n" for text in texts)


def test_the_file_can_be_trained_on(tmp_path):
    write(tmp_path / "a.parquet", ["some text to train on"] * 100)
    bn.tokenize_parquet(tmp_path / "a.parquet", tmp_path / "a.bin")
    run = bn.train(data=tmp_path / "a.bin", out=tmp_path / "run", layers=1, width=16, heads=2, context=16,
                   batch=2, steps=2, warmup=1, sample=0)
    assert [step["step"] for step in run if step["step"] > 0] == [1, 2]


@pytest.mark.parametrize("options, message", [
    ({"column": "id"}, "column id: expected a column of texts, found int64"),
    ({"column": "txt"}, "found none of that name; columns: id, text, other"),
    ({"eos": 256}, "eos: expected an id below 256, found 256"),
    ({"eos": -1}, "eos: expected an id below 256, found -1"),
    ({"out": "x.tokens"}, "expected a name that ends in .bin"),
    ({"source": "no-such.parquet"}, "no-such.parquet: expected a Parquet file"),
    ({"source": []}, "expected a file, found none"),
])
def test_refusals(tmp_path, options, message):
    given = {"source": write(tmp_path / "a.parquet"), "out": tmp_path / "a.bin", **options}
    with pytest.raises(bn.Error, match=message):
        bn.tokenize_parquet(given.pop("source"), given.pop("out"), **given)
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_other_files_and_texts_that_are_none(tmp_path):
    (tmp_path / "x.parquet").write_text("no Parquet")
    with pytest.raises(bn.Error, match="expected a Parquet file"):
        bn.tokenize_parquet(tmp_path / "x.parquet", tmp_path / "x.bin")
    write(tmp_path / "x.parquet", pa.array([None, None], pa.string()))
    with pytest.raises(bn.Error, match="column text: expected texts, found none"):
        bn.tokenize_parquet(tmp_path / "x.parquet", tmp_path / "x.bin")


def test_the_command(tmp_path):
    write(tmp_path / "a.parquet")

    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "binade", "tokenize-parquet", *arguments],
                              cwd=tmp_path, capture_output=True, text=True)

    done = run("bytes", "a.parquet", "a.parquet", "a.bin", "--eos", "1")
    assert done.stdout == "a.bin: 36 tokens\n", done.stderr
    assert bytes(ids_of(tmp_path / "a.bin")) == 2 * "héllo\1\1two\nlines\1".encode()
    failed = run("bytes", "none.parquet", "a.bin")
    assert failed.returncode == 2 and failed.stderr.startswith("binade: tokenize_parquet: none.parquet")


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(bn.Error, match="pyarrow: expected the package.*pip install pyarrow"):
        bn.tokenize_parquet(tmp_path / "a.parquet", tmp_path / "a.bin")
