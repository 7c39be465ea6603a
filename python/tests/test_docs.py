"""The examples in docstrings run as they are printed."""

import doctest
import importlib
import pathlib
import pkgutil
import re
import types

import binade
import pytest

ROOT = pathlib.Path(__file__).parents[2]
MODULES = ["binade"] + [m.name for m in pkgutil.walk_packages(binade.__path__, "binade.")
                        if m.name not in ("binade.torch", "binade._torch_recording", "binade.__main__",
                                          "binade._binade")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_programs_in_documents_run(document, tmp_path, monkeypatch):
    path = ROOT / document
    if not path.exists():
        pytest.skip(f"there is no {document}")
    programs = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S)
    assert programs
    monkeypatch.chdir(tmp_path)  # for runs/
    names = {}
    for program in programs:
        exec(program.replace("steps=200", "steps=2, layers=1, batch=2"), names)


def test_every_public_name_is_documented():
    undocumented = [name for name in dir(binade) if not name.startswith("_")
                    and callable(getattr(binade, name)) and not getattr(binade, name).__doc__]
    assert undocumented == []


def test_stubs_list_the_methods_written_in_python():
    stubs = ROOT / "python" / "src" / "stubs.txt"
    listed = set(re.findall(r"def (\w+)", stubs.read_text()))
    in_place = [name + "_" for name in binade._creation._binade._in_place_ops]  # of make_stubs.py
    native = ("reshape", "permute", "expand", "__repr__", "__hash__", "__bool__", "__float__",
              "__int__", "__index__", "__deepcopy__", "__reduce__",
              "__format__", "repeat", "tile", "nonzero", "scatter_add", "fill_", "masked_fill", "clamp",
                  "clip", *in_place)
    written = {name for name, member in vars(binade.Tensor).items()
               if isinstance(getattr(member, "fget", member), types.FunctionType)
               and name not in native}
    assert written - listed == set()


def test_stubs_name_what_the_package_exports():
    stub = pathlib.Path(binade.__file__).with_suffix(".pyi").read_text()
    named = set(re.findall(r"(\w+) as \1\b", stub)) - {"__version__"}
    native = {name for name, value in vars(binade._creation._binade).items()
              if value is getattr(binade, name, None)}
    public = {name for name in dir(binade) if not name.startswith("_")} - {"torch"}
    assert named <= public and public - native <= named
