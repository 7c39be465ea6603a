"""Layers of the engine, activations and losses, with PyTorch's names and order of arguments."""

from .. import _binade, _in_place
from . import functional
from .module import Module, NativeLayer, Parameter

_F32 = _binade.f32


def _require(layer, **options):
    """Refuses options of PyTorch's layer that this one does not have: name=(found, expected)."""
    for name, (found, expected) in options.items():
        if found is not expected and found != expected:
            _binade._fail(layer, argument=name, expected=str(expected), found=str(found))


class Linear(NativeLayer):
    """activation(x weight^T + bias); by a recipe under amp.quantized_autocast."""

    def __init__(self, in_features, out_features, bias=True, device="cpu", dtype=_F32, *,
                 activation="none"):
        super().__init__("_Linear", in_features, out_features, bias, activation, device, dtype)
        self.in_features, self.out_features = in_features, out_features

    def extra_repr(self):
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Embedding(NativeLayer):
    """Rows of a table by index."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, *, device="cpu", dtype=_F32,
                 std=1.0):
        _require("Embedding", padding_idx=(padding_idx, None))
        super().__init__("_Embedding", num_embeddings, embedding_dim, std, device, dtype)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


def _conv(axes):

    class Conv(NativeLayer):
        def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                     groups=1, bias=True, padding_mode="zeros", device="cpu", dtype=_F32):
            _require(f"Conv{axes}d", padding_mode=(padding_mode, "zeros"))
            super().__init__(f"_Conv{axes}d", in_channels, out_channels, kernel_size, stride,
                             padding, dilation, groups, bias, device, dtype)

    Conv.__name__ = Conv.__qualname__ = f"Conv{axes}d"
    Conv.__doc__ = f"A convolution over {axes} spatial axes."
    return Conv


Conv1d = _conv(1)
Conv2d = _conv(2)
Conv3d = _conv(3)


def _conv_transpose(axes):

    class ConvTranspose(NativeLayer):
        def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0,
                     output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros",
                     device="cpu", dtype=_F32):
            _require(f"ConvTranspose{axes}d", padding_mode=(padding_mode, "zeros"))
            super().__init__(f"_ConvTranspose{axes}d", in_channels, out_channels, kernel_size,
                             stride, padding, output_padding, groups, bias, dilation, device, dtype)

    ConvTranspose.__name__ = ConvTranspose.__qualname__ = f"ConvTranspose{axes}d"
    ConvTranspose.__doc__ = f"A transposed convolution over {axes} spatial axes."
    return ConvTranspose


ConvTranspose1d = _conv_transpose(1)
ConvTranspose2d = _conv_transpose(2)
ConvTranspose3d = _conv_transpose(3)


class LayerNorm(NativeLayer):
    """Layer normalization over the last axis."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device="cpu",
                 dtype=_F32):
        _require("LayerNorm", elementwise_affine=(elementwise_affine, True))
        super().__init__("_LayerNorm", _width(normalized_shape), eps, bias, device, dtype)


class RMSNorm(NativeLayer):
    """Root-mean-square normalization over the last axis. `eps` is by default the distance from 1 to
    the next number of f32."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device="cpu", dtype=_F32):
        _require("RMSNorm", elementwise_affine=(elementwise_affine, True))
        eps = 2.0**-23 if eps is None else eps
        super().__init__("_RMSNorm", _width(normalized_shape), eps, device, dtype)


def _width(normalized_shape):
    if isinstance(normalized_shape, int):
        return normalized_shape
    if len(normalized_shape) != 1:
        _binade._fail("norm", argument="normalized_shape", expected="the last axis alone",
                      found=str(list(normalized_shape)))
    return normalized_shape[0]


class BatchNorm2d(NativeLayer):
    """Normalization of each channel of [n, channels, ...] over the batch."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                 device="cpu", dtype=_F32):
        _require("BatchNorm", affine=(affine, True), track_running_stats=(track_running_stats, True))
        super().__init__("_BatchNorm", num_features, eps, momentum, device, dtype)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum

    def _buffer(self, name):
        return self._native.state_dict()[name].detach()

    running_mean = property(lambda self: self._buffer("running_mean"))
    running_var = property(lambda self: self._buffer("running_var"))
    num_batches_tracked = property(lambda self: self._buffer("num_batches_tracked"))


class BatchNorm1d(BatchNorm2d):
    """BatchNorm2d of [n, channels] or [n, channels, length]."""


class BatchNorm3d(BatchNorm2d):
    """BatchNorm2d of [n, channels, depth, height, width]."""


class GroupNorm(NativeLayer):
    """Normalization of groups of channels of one sample."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device="cpu", dtype=_F32):
        _require("GroupNorm", affine=(affine, True))
        super().__init__("_GroupNorm", num_groups, num_channels, eps, device, dtype)


class InstanceNorm2d(Module):
    """Normalization of each channel of each sample by itself, without running statistics."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False,
                 device="cpu", dtype=_F32):
        _require("InstanceNorm", track_running_stats=(track_running_stats, False))
        super().__init__()
        self.eps = eps
        self.weight = self.bias = None
        if affine:
            self.weight = Parameter(_binade.ones(num_features, dtype, device))
            self.bias = Parameter(_binade.zeros(num_features, dtype, device))

    def forward(self, x):
        return _binade.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)


InstanceNorm1d = InstanceNorm3d = InstanceNorm2d


class MultiheadAttention(NativeLayer):
    """Self-attention on [batch, tokens, width] with one packed projection."""

    weight = bias = None

    def __init__(self, embed_dim, num_heads, *, kv_heads=0, bias=True, causal=True, dropout=0.0,
                 device="cpu", dtype=_F32):
        super().__init__("_MultiheadAttention", embed_dim, num_heads, kv_heads, bias, causal,
                         dropout, device, dtype)


class MLP(NativeLayer):
    """Two linear layers with an activation (gelu_tanh); gated: activation(gate) * up, SwiGLU by
    default."""

    weight = bias = None

    def __init__(self, width, hidden, *, gated=False, bias=True, activation=None,
                 dropout=0.0, device="cpu", dtype=_F32):
        super().__init__("_MLP", width, hidden, gated, bias, activation, dropout, device,
                         dtype)


class _Unweighted(Module):
    """A function of one tensor with fixed options."""

    def __init__(self, function, *, inplace=False, **options):
        super().__init__()
        # By name, as functions of the engine cannot be copied or pickled.
        self._function, self._in_place, self.options = function.__name__, inplace, options

    def forward(self, x):
        function = getattr(_binade, self._function)
        if self._in_place:
            return _in_place.written(self._function + "_", x, function, self.options)
        return function(x, **self.options)

    def extra_repr(self):
        return ", ".join(f"{name}={value}" for name, value in self.options.items())


class _MaxPool(_Unweighted):
    """The largest element of each window."""

    def __init__(self, kernel_size, stride=None, padding=0, *, ceil_mode=False):
        super().__init__(_binade.max_pool, kernel_size=kernel_size, stride=stride, padding=padding,
                         ceil_mode=ceil_mode)


class _AvgPool(_Unweighted):
    """The mean of each window."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False,
                 count_include_pad=True):
        super().__init__(_binade.avg_pool, kernel_size=kernel_size, stride=stride, padding=padding,
                         ceil_mode=ceil_mode, count_include_pad=count_include_pad)


class _AdaptiveAvgPool(_Unweighted):
    """Means of windows that give `output_size`."""

    def __init__(self, output_size):
        super().__init__(_binade.adaptive_avg_pool, output_size=output_size)


class _AdaptiveMaxPool(_Unweighted):
    """Largest elements of windows that give `output_size`."""

    def __init__(self, output_size):
        super().__init__(_binade.adaptive_max_pool, output_size=output_size)


def _pools(base):
    """The pools of 1, 2 and 3 spatial axes."""
    def made(axes):
        def forward(self, x):
            return functional.pool_of(getattr(_binade, self._function), axes)(x, **self.options)

        name = base.__name__.strip("_") + f"{axes}d"
        return type(name, (base,), {"forward": forward, "__doc__": base.__doc__,
                                    "__module__": __name__})

    return map(made, (1, 2, 3))


MaxPool1d, MaxPool2d, MaxPool3d = _pools(_MaxPool)
AvgPool1d, AvgPool2d, AvgPool3d = _pools(_AvgPool)
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = _pools(_AdaptiveAvgPool)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = _pools(_AdaptiveMaxPool)


class Dropout(Module):
    """Zeroes elements with probability p while training."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            _binade._fail("Dropout", argument="p", expected="a probability, 0 to 1", found=str(p))
        self.p, self._in_place = p, inplace

    def forward(self, x):
        options = {"p": self.p, "training": self.training}
        if self._in_place:
            return _in_place.written("dropout_", x, _binade.dropout, options)
        return _binade.dropout(x, **options)

    def extra_repr(self):
        return f"p={self.p}"


def _function(name, function, doc):
    def __init__(self, inplace=False):
        _Unweighted.__init__(self, function, inplace=inplace)

    return type(name, (_Unweighted,), {"__init__": __init__, "__doc__": doc, "__module__": __name__})


class Identity(Module):
    """x itself; arguments are ignored."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, x):
        return x


ReLU = _function("ReLU", _binade.relu, "max(x, 0).")
SiLU = _function("SiLU", _binade.silu, "x * sigmoid(x).")
Tanh = _function("Tanh", _binade.tanh, "The hyperbolic tangent.")
Sigmoid = _function("Sigmoid", _binade.sigmoid, "1 / (1 + exp(-x)).")
Softplus = _function("Softplus", _binade.softplus, "log(1 + exp(x)).")
Mish = _function("Mish", _binade.mish, "x * tanh(softplus(x)).")
Hardsigmoid = _function("Hardsigmoid", _binade.hardsigmoid, "x / 6 + 1 / 2, limited to [0, 1].")
Hardswish = _function("Hardswish", _binade.hardswish, "x * hardsigmoid(x).")
SELU = _function("SELU", _binade.selu, "elu(x) with the factors that keep mean and variance.")
ReLU6 = _function("ReLU6", _binade.relu6, "x limited to [0, 6].")
LogSigmoid = _function("LogSigmoid", _binade.logsigmoid, "log(sigmoid(x)).")
Softsign = _function("Softsign", _binade.softsign, "x / (1 + |x|).")


class Hardtanh(_Unweighted):
    """x limited to [min_val, max_val]."""

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False):
        super().__init__(_binade.hardtanh, inplace=inplace, min_val=min_val, max_val=max_val)


class PixelShuffle(_Unweighted):
    """Blocks of channels as pixels."""

    def __init__(self, upscale_factor):
        super().__init__(_binade.pixel_shuffle, upscale_factor=upscale_factor)


class GELU(_Unweighted):
    """x times the normal distribution's cumulative probability."""

    def __init__(self, approximate="none"):
        super().__init__(_binade.gelu, approximate=approximate)


class ELU(_Unweighted):
    """alpha * (exp(x) - 1) below 0, x above."""

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__(_binade.elu, inplace=inplace, alpha=alpha)


class LeakyReLU(_Unweighted):
    """max(x, 0) + negative_slope * min(x, 0)."""

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__(_binade.leaky_relu, inplace=inplace, negative_slope=negative_slope)


class PReLU(Module):
    """max(x, 0) + weight * min(x, 0), with one weight or one per channel (axis 1)."""

    def __init__(self, num_parameters=1, init=0.25, device="cpu", dtype=_F32):
        super().__init__()
        self.weight = Parameter(_binade.full(num_parameters, init, dtype, device))

    def forward(self, x):
        return _binade.prelu(x, self.weight)


class Softmax(_Unweighted):
    """exp(x) / sum(exp(x)) along an axis."""

    def __init__(self, dim=-1):
        super().__init__(_binade.softmax, dim=dim)


class LogSoftmax(_Unweighted):
    """log(softmax(x)) along an axis."""

    def __init__(self, dim=-1):
        super().__init__(_binade.log_softmax, dim=dim)


class Flatten(_Unweighted):
    """Merges axes, all but the first by default."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__(_binade.flatten, start_dim=start_dim, end_dim=end_dim)


def _loss(name, function):
    def __init__(self, **options):
        Module.__init__(self)
        self.options = options

    def forward(self, input, target, *lengths):
        return function(input, target, *lengths, **self.options)

    return type(name, (Module,), {"__init__": __init__, "forward": forward,
                                  "__doc__": function.__doc__, "__module__": __name__})


class CrossEntropyLoss(Module):
    """Cross entropy of logits and classes or probabilities."""

    def __init__(self, weight=None, **options):
        super().__init__()
        self.options = {"weight": weight, **options}

    def forward(self, input, target):
        return _binade.cross_entropy(input, target, **self.options)


MSELoss = _loss("MSELoss", _binade.mse_loss)
L1Loss = _loss("L1Loss", _binade.l1_loss)
NLLLoss = _loss("NLLLoss", _binade.nll_loss)
BCELoss = _loss("BCELoss", _binade.binary_cross_entropy)
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", _binade.bce_with_logits)
SmoothL1Loss = _loss("SmoothL1Loss", _binade.smooth_l1_loss)
HuberLoss = _loss("HuberLoss", _binade.huber_loss)
KLDivLoss = _loss("KLDivLoss", functional.kl_div)
CTCLoss = _loss("CTCLoss", _binade.ctc_loss)
