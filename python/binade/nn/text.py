"""Modules as text: a tree with one line per module; equal neighbors are one line."""


def inner_text(description):
    """What stands in the parentheses of "Linear(64, 10)"."""
    _, _, inner = description.partition("(")
    return inner[:-1] if inner.endswith(")") else inner


def _merged(children):
    """(name, text) with runs of equal texts under numbered names as one: ("0-3", "4 x Block")."""
    merged = []
    for name, text in children:
        if merged and merged[-1][2] == text and name.isdigit():
            merged[-1] = (merged[-1][0], name, text, merged[-1][3] + 1)
        else:
            merged.append((name, name, text, 1))
    return [(first, text) if count == 1 else (f"{first}-{last}", f"{count} x {text}")
            for first, last, text, count in merged]


def tree_text(head, children):
    """`head`, such as Linear(64, 10), with the texts of children inside its parentheses."""
    if not children:
        return head
    inner = inner_text(head)
    lines = ["  " + inner] if inner else []
    lines += [f"  ({name}): " + text.replace("\n", "\n  ") for name, text in _merged(children)]
    return head.partition("(")[0] + "(\n" + "\n".join(lines) + "\n)"


def native_text(name, inner, native):
    """The text of a module of the engine with the layers inside it."""
    # Paths are those of a tree in depth-first order; "blocks.0" has no module "blocks" above it.
    tree = {}
    for path, description in native.descriptions()[1:]:
        branch = tree
        *above, last = path.split(".")
        for part in above:
            branch = branch.setdefault(part, (None, {}))[1]
        branch[last] = (description, {})
    return _branch_text(f"{name}({inner})", tree)


def _branch_text(head, branch):
    children = []
    for name, (description, below) in branch.items():
        if description is None:
            description = "ModuleList()"
        elif not description.endswith(")"):
            description += "()"
        children.append((name, _branch_text(description, below)))
    return tree_text(head, children)
