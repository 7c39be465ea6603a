"""Layers of the engine, activations and losses, with PyTorch's names and order of arguments."""

from .. import _binade
from .module import Module

_F32 = _binade.f32


class _Native(Module):
    """A layer of the engine: its parameters are those of the native object."""

    def __init__(self, native):
        super().__init__()
        object.__setattr__(self, "_native", native)

    def forward(self, x):
        return self._native(x)

    @property
    def weight(self):
        return self._native.weight

    @property
    def bias(self):
        return self._native.bias


class Linear(_Native):
    """activation(x weight^T + bias); in FP8 under amp.fp8_autocast."""

    def __init__(self, in_features, out_features, bias=True, device="cpu", dtype=_F32, *,
                 activation="none"):
        super().__init__(_binade._Linear(in_features, out_features, bias, activation, device, dtype))
        self.in_features, self.out_features = in_features, out_features

    def extra_repr(self):
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Embedding(_Native):
    """Rows of a table by index."""

    def __init__(self, num_embeddings, embedding_dim, device="cpu", dtype=_F32, *, std=1.0):
        super().__init__(_binade._Embedding(num_embeddings, embedding_dim, std, device, dtype))
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


def _conv(axes):
    native = getattr(_binade, f"_Conv{axes}d")

    class Conv(_Native):
        def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                     groups=1, bias=True, device="cpu", dtype=_F32):
            super().__init__(native(in_channels, out_channels, kernel_size, stride, padding,
                                    dilation, groups, bias, device, dtype))

    Conv.__name__ = Conv.__qualname__ = f"Conv{axes}d"
    Conv.__doc__ = f"A convolution over {axes} spatial axes."
    return Conv


Conv1d = _conv(1)
Conv2d = _conv(2)
Conv3d = _conv(3)


class LayerNorm(_Native):
    """Layer normalization over the last axis."""

    def __init__(self, normalized_shape, eps=1e-5, bias=True, device="cpu", dtype=_F32):
        super().__init__(_binade._LayerNorm(_width(normalized_shape), eps, bias, device, dtype))


class RMSNorm(_Native):
    """Root-mean-square normalization over the last axis."""

    def __init__(self, normalized_shape, eps=1e-5, device="cpu", dtype=_F32):
        super().__init__(_binade._RMSNorm(_width(normalized_shape), eps, device, dtype))


def _width(normalized_shape):
    if isinstance(normalized_shape, int):
        return normalized_shape
    if len(normalized_shape) != 1:
        _binade._fail("norm", argument="normalized_shape", expected="the last axis alone",
                      found=str(list(normalized_shape)))
    return normalized_shape[0]


class BatchNorm2d(_Native):
    """Normalization of each channel of [n, channels, ...] over the batch."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device="cpu", dtype=_F32):
        super().__init__(_binade._BatchNorm(num_features, eps, momentum, device, dtype))


BatchNorm1d = BatchNorm3d = BatchNorm2d


class GroupNorm(_Native):
    """Normalization of groups of channels of one sample."""

    def __init__(self, num_groups, num_channels, eps=1e-5, device="cpu", dtype=_F32):
        super().__init__(_binade._GroupNorm(num_groups, num_channels, eps, device, dtype))


class MultiheadAttention(_Native):
    """Self-attention on [batch, tokens, width] with one packed projection."""

    weight = bias = None

    def __init__(self, embed_dim, num_heads, *, kv_heads=0, bias=True, causal=True, dropout=0.0,
                 device="cpu", dtype=_F32):
        super().__init__(_binade._MultiheadAttention(embed_dim, num_heads, kv_heads, bias, causal,
                                                     dropout, device, dtype))


class MLP(_Native):
    """Two linear layers with an activation, or SwiGLU if gated."""

    weight = bias = None

    def __init__(self, width, hidden, *, gated=False, bias=True, activation="gelu_tanh",
                 dropout=0.0, device="cpu", dtype=_F32):
        super().__init__(_binade._MLP(width, hidden, gated, bias, activation, dropout, device,
                                      dtype))


class Dropout(Module):
    """Zeroes elements with probability p while training."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        return _binade.dropout(x, self.p, self.training)


def _function(name, function, doc):
    def forward(self, x):
        return function(x)

    return type(name, (Module,), {"forward": forward, "__doc__": doc, "__module__": __name__})


ReLU = _function("ReLU", _binade.relu, "max(x, 0).")
SiLU = _function("SiLU", _binade.silu, "x * sigmoid(x).")
Tanh = _function("Tanh", _binade.tanh, "The hyperbolic tangent.")
Sigmoid = _function("Sigmoid", _binade.sigmoid, "1 / (1 + exp(-x)).")
Identity = _function("Identity", lambda x: x, "x itself.")


class GELU(Module):
    """x times the normal distribution's cumulative probability."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, x):
        return _binade.gelu(x, self.approximate)


class Softmax(Module):
    """exp(x) / sum(exp(x)) along an axis."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return _binade.softmax(x, self.dim)


class Flatten(Module):
    """Merges axes, all but the first by default."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return _binade.flatten(x, self.start_dim, self.end_dim)


def _loss(name, function):
    def __init__(self, **options):
        Module.__init__(self)
        self.options = options

    def forward(self, input, target):
        return function(input, target, **self.options)

    return type(name, (Module,), {"__init__": __init__, "forward": forward,
                                  "__doc__": function.__doc__, "__module__": __name__})


CrossEntropyLoss = _loss("CrossEntropyLoss", _binade.cross_entropy)
MSELoss = _loss("MSELoss", _binade.mse_loss)
L1Loss = _loss("L1Loss", _binade.l1_loss)
NLLLoss = _loss("NLLLoss", _binade.nll_loss)
BCELoss = _loss("BCELoss", _binade.binary_cross_entropy)
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", _binade.bce_with_logits)
