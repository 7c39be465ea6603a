"""Types of what the package exports; python/tests/test_docs.py compares the names with the package's."""

from . import (
    amp as amp, autograd as autograd, cuda as cuda, data as data, formats as formats, lab as lab,
    nn as nn, optim as optim, parquet as parquet, quantization as quantization, saving as saving, training as training)
from ._counting import (
    bucketize as bucketize, searchsorted as searchsorted, unique as unique,
    unique_consecutive as unique_consecutive)
from ._creation import (
    Tensor as Tensor, arange as arange, as_tensor as as_tensor, asarray as asarray,
    empty as empty, empty_like as empty_like, from_dlpack as from_dlpack,
    from_numpy as from_numpy, full as full, full_like as full_like, logspace as logspace,
    manual_seed as manual_seed, normal as normal, ones as ones, ones_like as ones_like, rand as rand, rand_like as rand_like, randn as randn,
    randn_like as randn_like, randperm as randperm, tensor as tensor, zeros as zeros,
    zeros_like as zeros_like)
from ._dtypes import (
    bfloat16 as bfloat16, bool as bool, double as double, float as float, float16 as float16,
    float32 as float32, float64 as float64, float8_e4m3fn as float8_e4m3fn,
    float8_e5m2 as float8_e5m2, half as half, int as int, int32 as int32, int64 as int64,
    long as long, uint8 as uint8)
from ._functions import (
    allclose as allclose, broadcast_to as broadcast_to, checkpoint as checkpoint,
    clamp as clamp, clip as clip,
    concat as concat, concatenate as concatenate, einsum as einsum, equal as equal,
    is_floating_point as is_floating_point, is_tensor as is_tensor, masked_fill as masked_fill,
    meshgrid as meshgrid, moveaxis as moveaxis, movedim as movedim, nansum as nansum,
    nonzero as nonzero, ravel as ravel, scatter as scatter, scatter_add as scatter_add,
    swapaxes as swapaxes, take_along_dim as take_along_dim, where as where)
from ._numbers import (
    finfo as finfo, iinfo as iinfo, inf as inf, nan as nan, pi as pi)
from .autograd import (
    enable_grad as enable_grad, no_grad as no_grad, set_grad_enabled as set_grad_enabled)
from .parquet import (
    tokenize_parquet as tokenize_parquet)
from .quantization import (
    Quantization as Quantization, quantize as quantize)
from .saving import (
    load as load, save as save)
from .training import (
    TrainingRun as TrainingRun, eval as eval, export as export, generate as generate,
    plan as plan, train as train)
from .amp import (
    autocast as autocast)
from ._binade import __version__ as __version__
# Last: type checkers keep the first meaning of a name.
from ._binade import *  # type: ignore[assignment]
