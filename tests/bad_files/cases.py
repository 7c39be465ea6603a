"""The bad files that are made, and values that are wrong anywhere."""
import json
import pathlib

HERE = pathlib.Path(__file__).parent
CASES = []  # (path, parts of the message)


def case(path, content, *parts):
    if isinstance(content, str):
        content = content.encode()
    target = HERE / path
    target.parent.mkdir(exist_ok=True)
    assert not target.exists(), path
    target.write_bytes(content)
    CASES.append((path, parts))


# What stands where another kind of value belongs: a name, the value, and how messages describe it.
WRONG = {
    "true": (True, "found true"), "null": (None, "found null"), "text": ("x", 'found "x"'), "number": (7, "found 7"),
    "fraction": (1.5, "found 1.5"), "array": ([], "found an array of 0"), "object": ({}, "found an object of 0"),
    "huge": (1e300, "found 1e+300"),
}


def by_rule(write, good, path, kinds, *parts):
    """A file per kind of wrong value at `path` of a good JSON value; write(name, content, *parts) makes it."""
    label = "_".join(str(step).replace(".", "_").strip("_") for step in path)
    for kind in kinds.split():
        value, found = WRONG[kind]
        content = json.loads(json.dumps(good))
        place = content
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        write(f"{label}_is_{kind}", json.dumps(content), *parts, found)


def replaced(text, old, new):
    assert old in text, old
    return text.replace(old, new, 1)
