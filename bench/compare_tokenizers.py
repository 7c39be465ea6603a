#!/usr/bin/env python3
"""Speed of Binade and of Hugging Face's tokenizers package on one core, with the same tokenizer and text.

    python bench/compare_tokenizers.py TOKENIZER.json TEXT [TEXT ...]

Both run on one thread and are measured in CPU seconds: `binade tokenize apply` less what it takes to start and to read the
tokenizer, the package's encode_batch over the lines of the text and over documents of 4 kB, the best of three runs.
"""
import argparse
import os
import pathlib
import resource
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent


def child_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "BINADE_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def binade_seconds(binade, tokenizer, text):
    with tempfile.TemporaryDirectory() as folder:
        short, out = pathlib.Path(folder, "short.txt"), pathlib.Path(folder, "out.bin")
        short.write_text("a\n")
        start = min(child_seconds([binade, "tokenize", "apply", tokenizer, short, out]) for _ in range(3))
        return min(child_seconds([binade, "tokenize", "apply", tokenizer, text, out]) for _ in range(3)) - start


def documents(lines, size):
    batch, length = [], 0
    for line in lines:
        batch.append(line)
        length += len(line)
        if length >= size:
            yield "".join(batch)
            batch, length = [], 0
    yield "".join(batch)


def package_seconds(tokenizer, texts):
    def once():
        start = time.process_time()
        tokenizer.encode_batch(texts, add_special_tokens=False)
        return time.process_time() - start

    return min(once() for _ in range(3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path, nargs="+")
    parser.add_argument("--binade", type=pathlib.Path, default=ROOT / "build/release/binade")
    arguments = parser.parse_args()
    package = Tokenizer.from_file(str(arguments.tokenizer))
    for path in arguments.texts:
        megabytes = path.stat().st_size / 1e6
        lines = path.read_bytes().decode().splitlines(keepends=True)
        ours = megabytes / binade_seconds(arguments.binade, arguments.tokenizer, path)
        by_line = megabytes / package_seconds(package, lines)
        by_document = megabytes / package_seconds(package, list(documents(lines, 4000)))
        print(f"{arguments.tokenizer.name}, {path.name}: binade {ours:.1f} MB/s, tokenizers {by_line:.2f} by lines and "
              f"{by_document:.2f} by documents: {ours / max(by_line, by_document):.1f} times")


if __name__ == "__main__":
    main()
