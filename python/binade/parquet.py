"""Token files from the texts of Parquet files."""

import argparse
import os
import sys

import numpy as np

from . import _binade

# llm.c's headers: 256 words of 32 bits, of which these and the count are used.
_NARROW, _WIDE = (20240520, 1, np.dtype("<u2")), (20240801, 7, np.dtype("<u4"))
_narrow_ids, _most_ids = 65536, 2**31 - 1


def _open(path):
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        _binade._fail("tokenize_parquet", argument="pyarrow", expected="the package, which reads Parquet",
                      found="none", hint="pip install pyarrow")
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        _binade._fail("tokenize_parquet", argument=str(path), expected="a Parquet file",
                      found=str(error).splitlines()[0])


def _files_of(source):
    """The files of a path, a folder or a list of them."""
    files = []
    for one in [source] if isinstance(source, (str, os.PathLike)) else source:
        below = [os.path.join(one, name) for name in sorted(os.listdir(one))
                 if name.endswith(".parquet")] if os.path.isdir(one) else [os.fspath(one)]
        if not below:
            _binade._fail("tokenize_parquet", argument=str(one), expected="a folder with .parquet files",
                          found="none")
        files += below
    if not files:
        _binade._fail("tokenize_parquet", argument="source", expected="a file", found="none")
    return files


def _texts(path, column):
    """The texts of a column, a batch at a time: memory does not grow with the file."""
    file = _open(path)
    schema = file.schema_arrow
    if column not in schema.names:
        _binade._fail("tokenize_parquet", argument=f"{path}, column {column}", expected="a column of texts",
                      found="none of that name", hint="columns: " + ", ".join(schema.names))
    kind = schema.field(column).type
    if str(kind) not in ("string", "large_string"):
        _binade._fail("tokenize_parquet", argument=f"{path}, column {column}", expected="a column of texts",
                      found=str(kind))
    for batch in file.iter_batches(batch_size=1024, columns=[column]):
        for text in batch.column(0).to_pylist():
            if text is not None:
                yield text


def tokenize_parquet(source, out, tokenizer="bytes", column="text", eos=None):
    """Writes the texts of a column of Parquet files as a token file, which `binade train --data`
    reads (llm.c's format: 16 bits per id, 32 for vocabularies above 65536). Returns the number of
    tokens.

    `source` is a file, a folder of .parquet files or a list of both; `tokenizer` a Tokenizer or what
    one is made from. Each text is encoded by itself and ended by the id `eos`, or by a newline if
    there is none. Rows without a text are left out. The file appears when it is complete. Needs
    pyarrow.
    """
    if not isinstance(tokenizer, _binade.Tokenizer):
        tokenizer = _binade.Tokenizer(tokenizer)
    if eos is not None and not 0 <= eos < tokenizer.vocab:
        _binade._fail("tokenize_parquet", argument="eos", expected=f"an id below {tokenizer.vocab}",
                      found=str(eos))
    if not os.fspath(out).endswith(".bin"):
        _binade._fail("tokenize_parquet", argument="out", expected="a name that ends in .bin",
                      found=os.fspath(out), hint="train knows token files by it")
    files = _files_of(source)
    magic, version, dtype = _NARROW if tokenizer.vocab <= _narrow_ids else _WIDE
    temporary = f"{os.fspath(out)}.tmp{os.getpid()}"
    count = 0
    try:
        with open(temporary, "wb") as file:
            file.write(bytes(1024))
            for path in files:
                for text in _texts(path, column):
                    ids = tokenizer.encode(text + "\n" if eos is None else text)
                    if eos is not None:
                        ids.append(eos)
                    file.write(np.array(ids, dtype).tobytes())
                    count += len(ids)
                    if count > _most_ids:
                        _binade._fail("tokenize_parquet", argument=os.fspath(out),
                                      expected=f"at most {_most_ids} ids, the header's largest count",
                                      found="more", hint="write several files into a folder, which "
                                      "train reads in the order of their names")
            if count == 0:
                _binade._fail("tokenize_parquet", argument=f"column {column}", expected="texts",
                              found="none")
            file.seek(0)
            file.write(np.array([magic, version, count], "<i4").tobytes())
        os.replace(temporary, out)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    return count


def main(arguments):
    """`binade tokenize-parquet`, which the Python package adds to the program's commands."""
    parser = argparse.ArgumentParser(
        prog="binade tokenize-parquet",
        description="Convert a column of Parquet files to a token file for 'binade train --data'")
    parser.add_argument("model", metavar="MODEL", help="a tokenizer.json, a SentencePiece model, a "
                        "folder with one, or bytes")
    parser.add_argument("source", metavar="IN", nargs="+", help="Parquet files, or folders of them")
    parser.add_argument("out", metavar="OUT", help="token file (.bin)")
    parser.add_argument("--column", default="text", help="column of the texts (default: text)")
    parser.add_argument("--eos", type=int, metavar="ID",
                        help="id that ends each text; default: a newline does")
    given = parser.parse_args(arguments)
    try:
        count = tokenize_parquet(given.source, given.out, given.model, given.column, given.eos)
    except (_binade.Error, OSError) as error:
        print(f"binade: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{given.out}: {count} tokens")
