"""A copy of the sources with faults in them, and its build."""
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
BUILD = WORK / "release"
HEADER = "binade_mutant.h"
# Every test executable of the copy says which test it runs.
TEST_NAMES = "tests/support/mutant_test_names.cc"
TEST_CMAKE = f"""
foreach(folder IN LISTS test_folders)
  target_sources(test_${{folder}} PRIVATE "${{CMAKE_CURRENT_SOURCE_DIR}}/{TEST_NAMES}")
  target_include_directories(test_${{folder}} PRIVATE src)
endforeach()
set_source_files_properties("${{CMAKE_CURRENT_SOURCE_DIR}}/{TEST_NAMES}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
                            SKIP_PRECOMPILE_HEADERS ON)
"""


def write_if_changed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != text:
        path.write_bytes(text)


def source_files():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            check=True, capture_output=True).stdout.decode()
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


def plant(edited):
    """Makes TREE the sources with `edited` (texts by name) in them; what does not change keeps its time stamp."""
    names = source_files()
    for name in names:
        text = (ROOT / name).read_bytes()
        if name in edited:
            text = f'#include "{HEADER}"\n{edited[name]}'.encode()
        elif name == "cmake/tests.cmake":
            text += TEST_CMAKE.encode()
        write_if_changed(TREE / name, text)
        os.chmod(TREE / name, (ROOT / name).stat().st_mode)
    added = {f"src/{HEADER}": "guard.h", TEST_NAMES: "test_names.cpp"}
    for name, source in added.items():
        write_if_changed(TREE / name, (Path(__file__).parent / source).read_bytes())
    for old in TREE.rglob("*"):
        name = str(old.relative_to(TREE))
        if old.is_file() and name not in names and name not in added:
            old.unlink()


def build(log, *targets):
    """Whether the copy compiles; as much of it as does. The compiler's words go to a file."""
    with open(log, "w") as out:
        if not (BUILD / "build.ninja").exists():
            subprocess.run(["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                            "-DBINADE_WERROR=OFF", "-DBINADE_SHARED=OFF", "-DBINADE_PYTHON=OFF"],
                           stdout=out, stderr=out, check=True)
        return subprocess.run(["ninja", "-C", BUILD, "-k", "0", *targets], stdout=out, stderr=out).returncode == 0
