#!/usr/bin/env python3
"""Writes the bad files beside it and expected.tsv: python3 tests/bad_files/make.py

Each case is a file and the parts that its error message must have. bad_files_test.cpp opens every file through the
library and the command line. The files are small, since they are also seeds of the fuzzers.
"""
import shutil
import sys

sys.dont_write_bytecode = True  # all folders here are made anew

import gguf
import runs
import templates
import tokens
import weights
from cases import CASES, HERE


def main():
    for path in HERE.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    for make in (weights.safetensors, weights.index, weights.config, runs.manifest, runs.reproduction, runs.plan,
                 tokens.tokens, runs.toml, tokens.tokenizer, tokens.tokenizer_json, gguf.gguf, templates.chat_template):
        make()
    lines = ["\t".join((path, *parts)) for path, parts in CASES]
    (HERE / "expected.tsv").write_text("\n".join(lines) + "\n")
    print(f"{len(CASES)} bad files")


main()
