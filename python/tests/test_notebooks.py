"""The notebooks of docs/notebooks run, cell by cell, and print what they show."""

import contextlib
import io
import json
import os
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.skipif("BINADE_SLOW_TESTS" not in os.environ, reason="BINADE_SLOW_TESTS is not set")
def test_cells_run(path):
    scope = {"__name__": "notebook"}
    for cell in cells(path):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), scope)
        # Last digits may differ between kinds of CPUs; the number of lines may not.
        shown = sum(len(output["text"]) for output in cell["outputs"])
        assert len(printed.getvalue().splitlines()) == shown


def test_notebooks_compile():
    assert [p.stem for p in NOTEBOOKS] == ["formats_and_loss_scaling", "fp8_gpt"]
    for path in NOTEBOOKS:
        for cell in cells(path):
            compile("".join(cell["source"]), str(path), "exec")
