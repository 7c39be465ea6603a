"""Binade: a mixed-precision training engine.

>>> import binade as bn
>>> x = bn.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> loss = (x * x).mean()
>>> loss.backward()
>>> x.grad
tensor([[0.5, 1. ],
        [1.5, 2. ]])
"""

from . import _binade
from ._binade import *  # noqa: F403  every public name of the compiled module
from ._binade import __version__  # noqa: F401
from ._counting import bucketize, searchsorted, unique, unique_consecutive  # noqa: F401
from ._creation import (  # noqa: F401
    arange, asarray, as_tensor, empty, empty_like, from_dlpack, from_numpy, full, full_like,
    logspace, manual_seed, normal, ones, ones_like, rand, rand_like, randn, randn_like, randperm, tensor, zeros,
    zeros_like)
from ._dtypes import (  # noqa: F401
    bfloat16, bool, double, float, float16, float32, float64, float8_e4m3fn, float8_e5m2, half, int,
    int32, int64, long, uint8)
from ._functions import (  # noqa: F401
    allclose, broadcast_to, checkpoint, clamp, clip, concat, concatenate, einsum, equal,
    is_floating_point, is_tensor, masked_fill, meshgrid, moveaxis, movedim, nansum, nonzero, ravel, scatter, scatter_add, swapaxes, take_along_dim, where)
from ._numbers import finfo, iinfo, inf, nan, pi  # noqa: F401
from . import _methods  # noqa: F401  adds methods to Tensor
from .autograd import enable_grad, no_grad, set_grad_enabled  # noqa: F401
from .quantization import Quantization, quantize  # noqa: F401
from .saving import load, save  # noqa: F401
from .parquet import tokenize_parquet  # noqa: F401
from .training import TrainingRun, eval, export, generate, plan, train  # noqa: F401
from . import amp, autograd, cuda, data, formats, lab, nn, optim, quantization, training  # noqa: F401
from .amp import autocast  # noqa: F401

del _binade
