"""The base of all modules. Layers of the engine are native modules behind the same interface."""

import collections

from .. import _binade
from .._binade import Tensor
from .._hooks import RemovableHandle
from . import copies
from .text import inner_text, native_text, tree_text


class Parameter(Tensor):
    """A tensor that a module registers as a parameter when it is assigned as an attribute."""

    def __init__(self, data, requires_grad=True):
        if not isinstance(data, Tensor):
            from .._creation import tensor
            data = tensor(data)
        super().__init__(data.detach())
        if requires_grad:
            self.requires_grad = True

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = copied = Parameter(self.detach().clone(), self.requires_grad)
            if self.requires_grad and self.grad is not None:
                copied.grad = self.grad.clone()
        return memo[id(self)]

    def __copy__(self):
        return Parameter(self, self.requires_grad)

    def __reduce__(self):
        return Parameter, (self.detach(), self.requires_grad)


def _registered(hooks, hook):
    key = object()
    hooks[key] = hook
    return RemovableHandle(lambda: hooks.pop(key, None))


LoadedKeys = collections.namedtuple("LoadedKeys", ["missing_keys", "unexpected_keys"])


def _buffer(name, value):
    if value is not None and not isinstance(value, Tensor):
        raise TypeError(f"buffer {name!r} is a tensor or None, not {type(value).__name__}")
    return value


def _joined(prefix, name):
    return f"{prefix}.{name}" if prefix else name


class Module:
    """Owns parameters, buffers and child modules, found by assigning them as attributes.

    Subclasses call super().__init__() and define forward(). Ops that run inside know the path of
    their module: policies, recipes, explain() and diagnoses use it.
    """

    # Of layers of the engine: the object that owns their parameters, and how it was made.
    _native = _made = None
    training = True

    def __init__(self):
        for store in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, store, {})
        object.__setattr__(self, "_transient", set())  # buffers that are not saved
        object.__setattr__(self, "_name", "")
        object.__setattr__(self, "_pre_hooks", {})
        object.__setattr__(self, "_hooks", {})

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args, **kwargs):
        with _binade._module_scope(self._name):
            if self._pre_hooks or self._hooks:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)

    def _call_with_hooks(self, args, kwargs):
        for hook in list(self._pre_hooks.values()):
            result = hook(self, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
        output = self.forward(*args, **kwargs)
        for hook in list(self._hooks.values()):
            result = hook(self, args, output)
            output = output if result is None else result
        return output

    def register_forward_pre_hook(self, hook):
        """Calls hook(module, args) before forward; a result other than None replaces the args."""
        return _registered(self._pre_hooks, hook)

    def register_forward_hook(self, hook):
        """Calls hook(module, args, output) after forward; a result replaces the output.

        >>> import binade as bn
        >>> layer = bn.nn.Linear(2, 3)
        >>> handle = layer.register_forward_hook(lambda module, args, output: print(output.shape))
        >>> y = layer(bn.ones(4, 2))
        (4, 3)
        >>> handle.remove()
        """
        return _registered(self._hooks, hook)

    def __setattr__(self, name, value):
        stores = self.__dict__
        if isinstance(value, (Module, Parameter)) and "_modules" not in stores:
            raise AttributeError("call super().__init__() before assigning modules or parameters")
        if "_modules" not in stores or isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        elif isinstance(value, Module):
            object.__setattr__(value, "_name", name)
            self._store(self._modules, name, value)
        elif isinstance(value, Parameter):
            self._store(self._parameters, name, value)
        elif value is not None and (name in self._parameters or name in self._modules):
            expected = "a Parameter" if name in self._parameters else "a Module"
            raise TypeError(f"{name!r} of {type(self).__name__} is {expected} or None, "
                            f"not {type(value).__name__}")
        elif name in self._buffers:
            self._buffers[name] = _buffer(name, value)
        else:
            object.__setattr__(self, name, value)
            self._parameters.pop(name, None)
            self._modules.pop(name, None)

    def _store(self, store, name, value):
        """Puts a value where it belongs and drops what had its name elsewhere."""
        for other in (self.__dict__, self._parameters, self._modules):
            if other is not store:
                other.pop(name, None)
        store[name] = value

    def __getattr__(self, name):
        for store in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(store, {})
            if name in found:
                return found[name]
        if "_modules" not in self.__dict__ and name in ("_name", "_modules", "_parameters"):
            raise AttributeError(f"{type(self).__name__}.__init__ does not call super().__init__()")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name):
        for store in (self._parameters, self._buffers, self._modules):
            if store.pop(name, None) is not None:
                return
        object.__delattr__(self, name)

    def register_parameter(self, name, param):
        """A Parameter, or None, under this name."""
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"parameter {name!r} is a Parameter or None, not {type(param).__name__}")
        self._store(self._parameters, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor that is not trained, and saved with the module if it is persistent."""
        self._store(self._buffers, name, _buffer(name, tensor))
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name, module):
        """A child of this name, which need not be one that an attribute can have."""
        object.__setattr__(module, "_name", name)
        self._store(self._modules, name, module)

    # --- walking the tree ---

    def children(self):
        return iter(self._modules.values())

    def named_children(self):
        return iter(self._modules.items())

    def _places(self, prefix=""):
        """(path, module) of this module and those below it, depth first, at each of its paths."""
        yield prefix, self
        for name, child in self._modules.items():
            yield from child._places(_joined(prefix, name))

    def named_modules(self, prefix=""):
        """(path, module) of this module and those below it, depth first, each module once."""
        seen = set()
        for path, module in self._places(prefix):
            if id(module) not in seen:
                seen.add(id(module))
                yield path, module

    def get_submodule(self, target):
        """The module at a path. Layers inside a model of the engine can be hooked, too.

        >>> import binade as bn
        >>> model = bn.nn.GPT(layers=1, width=16, heads=2, vocab=32, context=8)
        >>> model.get_submodule("blocks.0.mlp.up").weight.shape
        (64, 16)
        """
        module, rest = self, [part for part in target.split(".") if part]
        while rest and rest[0] in module._modules:
            module = module._modules[rest.pop(0)]
        if not rest:
            return module
        layer = None if module._native is None else module._native.layer(".".join(rest))
        if layer is None:
            raise AttributeError(f"{type(self).__name__} has no layer at {target!r}")
        return InnerLayer(layer)

    def modules(self):
        return (module for _, module in self.named_modules())

    def _own(self, store, native):
        yield from ((n, t) for n, t in store.items() if t is not None)
        if self._native is not None:
            yield from native()

    def named_parameters(self, prefix="", recurse=True):
        """(path, parameter), each tensor once; this module's own ones unless `recurse`."""
        seen = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            native = getattr(module._native, "named_parameters", None)
            for name, tensor in module._own(module._parameters, native):
                key = (tensor.data_ptr(), tensor.shape)
                if tensor.numel() == 0 or key not in seen:
                    seen.add(key)
                    yield _joined(path, name), tensor

    def parameters(self, recurse=True):
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def get_parameter(self, target):
        """The parameter at a path."""
        found = dict(self.named_parameters()).get(target)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no parameter {target!r}")
        return found

    def named_buffers(self, prefix="", recurse=True):
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            native = getattr(module._native, "named_buffers", None)
            for name, tensor in module._own(module._buffers, native):
                yield _joined(path, name), tensor

    def buffers(self):
        return (tensor for _, tensor in self.named_buffers())

    # --- state ---

    def train(self, mode=True):
        for module in self.modules():
            object.__setattr__(module, "training", mode)
            if module._native is not None:
                module._native.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def zero_grad(self, set_to_none=True):
        if not set_to_none:
            from ..optim import zero_gradients
            return zero_gradients(self.parameters())
        for parameter in self.parameters():
            parameter.grad = None

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def state_dict(self, prefix=""):
        """Parameters and buffers by path, sharing the module's memory."""
        state = {}
        for path, module in self._places(prefix):
            own = {**module._parameters, **module._buffers}
            own = {name: tensor for name, tensor in own.items() if name not in module._transient}
            if module._native is not None:
                own.update(module._native.state_dict())
            for name, tensor in own.items():
                if tensor is not None:
                    state[_joined(path, name)] = tensor.detach()
        return state

    def load_state_dict(self, state_dict, strict=True):
        """Copies values in, converting dtypes. One error names every missing and surplus entry; what
        is not `strict` leaves them out, and returns them."""
        from .._creation import asarray
        state = {_binade._current_buffer_name(name): asarray(value)
                 for name, value in state_dict.items()}
        for path, module in self._places():
            if module._native is not None:  # delayed scales are created by loading them
                inside = path + "." if path else ""
                own = {n[len(inside):]: t for n, t in state.items()
                       if n.startswith(inside) and "scales" in n[len(inside):].split(".")}
                if own:
                    module._native.load_state_dict(own, False)
        mine = self.state_dict()
        problems = [f"  missing: {name}" for name in mine if strict and name not in state]
        problems += [f"  not in this model: {n}" for n in state if strict and n not in mine]
        problems += [f"  {n}: expected {list(t.shape)}, found {list(state[n].shape)}"
                     for n, t in mine.items() if n in state and state[n].shape != t.shape]
        if problems:
            _binade._fail("load_state_dict", argument="state", expected="the tensors of this module",
                          found=f"{len(problems)} differences", details="\n".join(problems))
        for name, tensor in mine.items():
            if name in state:
                tensor.copy_(state[name].detach())
        return LoadedKeys([n for n in mine if n not in state], [n for n in state if n not in mine])

    def _each_tensor(self, convert, convert_native):
        for module in self.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    with _no_grad():
                        converted = convert(parameter.detach(), True)
                    module._parameters[name] = Parameter(converted, parameter.requires_grad)
            for name, tensor in module._buffers.items():
                if tensor is not None:
                    module._buffers[name] = convert(tensor, False)
            if module._native is not None:
                convert_native(module._native)
        return self

    def to(self, *targets, device=None, dtype=None):
        """Moves parameters and buffers, or converts the parameters' dtype. Make the optimizer
        afterwards."""
        for target in (*targets, device, dtype):
            if target is None:
                continue
            as_dtype = _dtype_or_none(target)
            if as_dtype is not None:
                self._each_tensor(lambda t, is_parameter: t.to(as_dtype) if is_parameter else t,
                                  lambda native: native.to_dtype(as_dtype))
            else:
                self._each_tensor(lambda t, _: t.to(target),
                                  lambda native: native.to_device(target))
        return self

    def cuda(self, device="cuda"):
        return self.to(device)

    def cpu(self):
        return self.to("cpu")

    def half(self):
        return self.to(_binade.f16)

    def bfloat16(self):
        return self.to(_binade.bf16)

    def float(self):
        return self.to(_binade.f32)

    def double(self):
        return self.to(_binade.f64)

    def apply(self, function):
        """Calls function(module) for every module, children first."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def _make_native(self, kind, *arguments):
        """Makes the engine's object. Copies and pickles make it from the same arguments."""
        object.__setattr__(self, "_native", getattr(_binade, kind)(*arguments))
        object.__setattr__(self, "_made",
                           (kind, tuple(copies.plain_argument(a) for a in arguments)))

    def __copy__(self):
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def __deepcopy__(self, memo):
        return copies.deep_copy(self, memo)

    def __getstate__(self):
        state = dict(self.__dict__)
        if state.pop("_native", None) is not None:
            state["_native"] = copies.native_state(self)
        return state

    def __setstate__(self, state):
        native = state.pop("_native", None)
        self.__dict__.update(state)
        if native is not None:
            object.__setattr__(self, "_native", copies.native_from(native))
            self._native.train(self.training)

    def extra_repr(self):
        return ""

    def __repr__(self):
        children = [(name, repr(child)) for name, child in self._modules.items()]
        return tree_text(f"{type(self).__name__}({self.extra_repr()})", children)


def _no_grad():
    return _binade._no_grad()


def _dtype_or_none(target):
    try:
        return _binade.dtype(target)
    except TypeError:
        return None


class NativeLayer(Module):
    """A layer of the engine: its parameters are those of the native object."""

    def __init__(self, kind, *arguments):
        super().__init__()
        self._make_native(kind, *arguments)

    def forward(self, x):
        return self._native(x)

    @property
    def weight(self):
        return self._native.weight

    @weight.setter
    def weight(self, value):
        self._native.weight = _shared(self._native.weight, value)

    @property
    def bias(self):
        return self._native.bias

    @bias.setter
    def bias(self, value):
        self._native.bias = _shared(self._native.bias, value)

    def extra_repr(self):
        return inner_text(self._native.descriptions()[0][1])

    def __repr__(self):
        return native_text(type(self).__name__, self.extra_repr(), self._native)


def _shared(present, value):
    """A parameter that replaces one of a layer, which then shares it with another layer."""
    if present is None or value.shape != present.shape or not (value.is_leaf and value.requires_grad):
        expected = "None" if present is None else f"a leaf of shape {list(present.shape)} that requires a gradient"
        _binade._fail("layer", argument="parameter", expected=expected,
                      found=f"{list(value.shape)}, requires_grad={value.requires_grad}")
    return value


def _hook_result(result):
    if result is not None and not isinstance(result, Tensor):
        _binade._fail("hook", argument="result", expected="a tensor or None",
                      found=type(result).__name__)
    return result


class InnerLayer(NativeLayer):
    """A layer inside a model of the engine, which calls it and its hooks."""

    def __init__(self, native):
        Module.__init__(self)
        object.__setattr__(self, "_native", native)

    def __repr__(self):
        name, _, inner = self._native.descriptions()[0][1].partition("(")
        return native_text(name, inner.rstrip(")"), self._native)

    def register_forward_pre_hook(self, hook):
        def call(native, x):
            result = hook(InnerLayer(native), (x,))
            return _hook_result(result[0] if isinstance(result, tuple) else result)

        return RemovableHandle(self._native.register_forward_pre_hook(call).remove)

    def register_forward_hook(self, hook):
        def call(native, x, output):
            return _hook_result(hook(InnerLayer(native), (x,), output))

        return RemovableHandle(self._native.register_forward_hook(call).remove)


class _Container(Module):
    """What modules that hold others in order have in common."""

    def _names(self):
        return list(self._modules)

    def __getitem__(self, i):
        modules = list(self._modules.values())
        return type(self)._of(modules[i]) if isinstance(i, slice) else modules[i]

    def __setitem__(self, i, module):
        self.add_module(self._names()[i], module)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def append(self, module):
        self.add_module(str(len(self._modules)), module)
        return self

    def insert(self, index, module):
        """Puts a module before the one at `index`."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules.clear()
        self.extend(modules)

    def __iadd__(self, modules):
        return self.extend(modules)

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self


class Sequential(_Container):
    """Modules one after another, named "0", "1", ..."""

    def __init__(self, *modules):
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) \
            else ((str(i), m) for i, m in enumerate(modules))
        for name, module in named:
            self.add_module(name, module)

    @classmethod
    def _of(cls, modules):
        return cls(*modules)

    def forward(self, x):
        for module in self._modules.values():
            x = module(x)
        return x


class ModuleList(_Container):
    """A list of modules; their forward is the caller's business."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    @classmethod
    def _of(cls, modules):
        return cls(modules)


class ModuleDict(Module):
    """Modules by name, in the order of insertion; their forward is the caller's business.

    >>> import binade as bn
    >>> heads = bn.nn.ModuleDict({"a": bn.nn.Linear(2, 3), "b": bn.nn.Linear(2, 1)})
    >>> heads["b"](bn.ones(4, 2)).shape, list(heads)
    ((4, 1), ['a', 'b'])
    """

    def __init__(self, modules=()):
        super().__init__()
        self.update(modules)

    def update(self, modules):
        for name, module in dict(modules).items():
            self[name] = module

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __delitem__(self, name):
        del self._modules[name]

    def __contains__(self, name):
        return name in self._modules

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()
