"""Handles of registered hooks, and hooks on gradients."""

from . import _binade


class RemovableHandle:
    """A registered hook. Dropping the handle leaves the hook in place."""

    def __init__(self, remove):
        self._remove = remove

    def remove(self):
        """Removes the hook; further calls do nothing."""
        self._remove()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def register_hook(self, hook):
    """Calls hook(gradient) with each finished gradient of this tensor; a result replaces it.

    >>> import binade as bn
    >>> w = bn.ones(2, requires_grad=True)
    >>> handle = w.register_hook(lambda gradient: gradient * 10)
    >>> w.sum().backward()
    >>> w.grad
    tensor([10., 10.])
    """
    if not self.requires_grad:
        _binade._fail("register_hook", argument="self", expected="a tensor that requires a gradient",
                      found="one that does not")
    hooks = [hook]
    _binade._register_hook(self, lambda gradient: hooks[0](gradient) if hooks else None)
    return RemovableHandle(hooks.clear)
