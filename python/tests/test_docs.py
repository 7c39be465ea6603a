"""The examples in docstrings run as they are printed."""

import doctest
import importlib
import pkgutil

import binade
import pytest

MODULES = ["binade"] + [m.name for m in pkgutil.walk_packages(binade.__path__, "binade.")
                        if m.name not in ("binade.torch", "binade.__main__", "binade._binade")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_every_public_name_is_documented():
    undocumented = [name for name in dir(binade) if not name.startswith("_")
                    and callable(getattr(binade, name)) and not getattr(binade, name).__doc__]
    assert undocumented == []
