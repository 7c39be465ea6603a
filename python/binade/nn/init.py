"""Initial values, in place, with PyTorch's names and order of arguments.

What is drawn is a function of manual_seed and the number of tensors drawn since.
"""

from .. import _binade


def _written(tensor, function, *args):
    with _binade._no_grad():
        function(tensor.detach(), *args)
    return tensor


def normal_(tensor, mean=0.0, std=1.0):
    """A normal distribution."""
    return _written(tensor, _binade._init_normal, mean, std)


def uniform_(tensor, a=0.0, b=1.0):
    """Uniform in [a, b)."""
    return _written(tensor, _binade._init_uniform, a, b)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0):
    """A normal distribution limited to [a, b]."""
    return _written(tensor, _binade._init_trunc_normal, mean, std, a, b)


def constant_(tensor, val):
    """One value."""
    tensor.detach().fill_(val)
    return tensor


def zeros_(tensor):
    """Zeros."""
    return constant_(tensor, 0)


def ones_(tensor):
    """Ones."""
    return constant_(tensor, 1)


def eye_(tensor):
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    return _written(tensor, _binade._init_eye)


def orthogonal_(tensor, gain=1.0):
    """A (semi-)orthogonal matrix times `gain`; axes after the first are joined."""
    return _written(tensor, _binade._init_orthogonal, gain)


def xavier_uniform_(tensor, gain=1.0):
    """Uniform, of variance gain^2 * 2 / (fan in + fan out)."""
    return _written(tensor, _binade._init_xavier_uniform, gain)


def xavier_normal_(tensor, gain=1.0):
    """Normal, of variance gain^2 * 2 / (fan in + fan out)."""
    return _written(tensor, _binade._init_xavier_normal, gain)


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu"):
    """Uniform, of variance gain^2 / fan, with the gain of the function after the layer."""
    return _written(tensor, _binade._init_kaiming_uniform, a, mode, nonlinearity)


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu"):
    """Normal, of variance gain^2 / fan, with the gain of the function after the layer.

    >>> import binade as bn
    >>> w = bn.nn.init.kaiming_normal_(bn.empty(200, 50), nonlinearity="relu")
    >>> abs(w.std().item() - 0.2) < 0.01
    True
    """
    return _written(tensor, _binade._init_kaiming_normal, a, mode, nonlinearity)


def calculate_gain(nonlinearity, param=None):
    """The factor by which a function's layer keeps the variance; `param` is leaky_relu's slope.

    >>> import binade as bn
    >>> bn.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    return _binade._init_gain(nonlinearity, 0.01 if param is None else param)
