"""The command `binade`: the program of the same name, which the wheel carries."""

import os
import sys


def main():
    if sys.argv[1:2] == ["tokenize-parquet"]:  # the one command that needs Python
        from .parquet import main as tokenize_parquet
        return tokenize_parquet(sys.argv[2:])
    program = os.path.join(os.path.dirname(__file__), "bin", "binade")
    if not os.path.exists(program):
        sys.exit("binade: this installation has no program; it was built with BINADE_CLI=OFF")
    os.execv(program, [program, *sys.argv[1:]])
