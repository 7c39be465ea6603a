"""Types of what the package exports; python/tests/test_docs.py compares the names with the package's."""

from . import (
    amp as amp, autograd as autograd, cuda as cuda, data as data, formats as formats, lab as lab,
    nn as nn, optim as optim, quantization as quantization, saving as saving, training as training)
from ._binade import (
    Config as Config, Diagnosis as Diagnosis, Error as Error, Format as Format,
    OneCycle as OneCycle, Policy as Policy, Recipe as Recipe, RunResult as RunResult,
    Schedule as Schedule, Scope as Scope, StepReport as StepReport, Tokenizer as Tokenizer,
    ValuesAndIndices as ValuesAndIndices, abs as abs, acos as acos,
    adaptive_avg_pool as adaptive_avg_pool, adaptive_max_pool as adaptive_max_pool, add as add,
    addcdiv as addcdiv, addcmul as addcmul, addmm as addmm, all as all, amax as amax,
    amin as amin, any as any, argmax as argmax, argmin as argmin, argsort as argsort,
    asin as asin, atan as atan, atan2 as atan2, avg_pool as avg_pool, baddbmm as baddbmm,
    batch_norm as batch_norm, bce_with_logits as bce_with_logits, begin_step as begin_step,
    bf16 as bf16, bilinear as bilinear, binary_cross_entropy as binary_cross_entropy, bmm as bmm,
    cast as cast, cat as cat, cdist as cdist, ceil as ceil, chunk as chunk, clamp as clamp,
    clip as clip, clip_grad_norm_ as clip_grad_norm_, clip_grad_value_ as clip_grad_value_,
    contiguous as contiguous, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d,
    conv_transpose1d as conv_transpose1d, conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d, cos as cos, cosh as cosh,
    cosine_similarity as cosine_similarity, cross as cross, cross_entropy as cross_entropy,
    ctc_loss as ctc_loss, cumprod as cumprod, cumsum as cumsum, device as device, div as div,
    dot as dot, dropout as dropout, dtype as dtype, e4m3 as e4m3, e5m2 as e5m2, elu as elu,
    embedding as embedding, eq as eq, erf as erf, erfinv as erfinv, exp as exp, expand as expand,
    expm1 as expm1, eye as eye, f16 as f16, f32 as f32, f64 as f64, flatten as flatten,
    flip as flip, floor as floor, fold as fold, gather as gather, ge as ge, gelu as gelu,
    get_autocast_dtype as get_autocast_dtype, get_num_threads as get_num_threads,
    global_avg_pool as global_avg_pool, grad_norm as grad_norm, greater as greater,
    greater_equal as greater_equal, grid_sampler as grid_sampler, group_norm as group_norm,
    gru_cell as gru_cell, gt as gt, hardsigmoid as hardsigmoid, hardswish as hardswish,
    hinge_embedding_loss as hinge_embedding_loss, huber_loss as huber_loss, i32 as i32,
    i64 as i64, index_put as index_put, index_select as index_select,
    instance_norm as instance_norm, is_autocast_enabled as is_autocast_enabled,
    is_finite as is_finite, is_grad_enabled as is_grad_enabled, is_inf as is_inf,
    is_nan as is_nan, isfinite as isfinite, isinf as isinf, isnan as isnan, kl_div as kl_div,
    l1_loss as l1_loss, layer_norm as layer_norm, le as le, leaky_relu as leaky_relu,
    less as less, less_equal as less_equal, linear as linear,
    linear_cross_entropy as linear_cross_entropy, linspace as linspace,
    load_safetensors as load_safetensors, log as log, log10 as log10, log1p as log1p,
    log2 as log2, log_softmax as log_softmax, logical_and as logical_and,
    logical_not as logical_not, logical_or as logical_or, logsumexp as logsumexp,
    lstm_cell as lstm_cell, lt as lt, margin_ranking_loss as margin_ranking_loss,
    masked_fill as masked_fill, masked_select as masked_select, matmul as matmul, max as max,
    max_memory_allocated as max_memory_allocated, max_pool as max_pool, maximum as maximum,
    mean as mean, memory_allocated as memory_allocated, min as min, minimum as minimum,
    mish as mish, mm as mm, mse_loss as mse_loss, mul as mul,
    multi_margin_loss as multi_margin_loss, multinomial as multinomial, mv as mv, ne as ne,
    neg as neg, nll_loss as nll_loss, norm as norm, not_equal as not_equal, one_hot as one_hot,
    packed_attention as packed_attention, pad as pad, permute as permute, pow as pow,
    prelu as prelu, prod as prod, randint as randint, reciprocal as reciprocal, relu as relu,
    remainder as remainder, repeat as repeat, reset_peak_memory_stats as reset_peak_memory_stats,
    reshape as reshape, residual_layer_norm as residual_layer_norm,
    residual_rms_norm as residual_rms_norm, rms_norm as rms_norm, rnn_relu_cell as rnn_relu_cell,
    rnn_tanh_cell as rnn_tanh_cell, roll as roll, rope as rope, rope_tables as rope_tables,
    round as round, rsqrt as rsqrt, save_safetensors as save_safetensors,
    scaled_dot_product_attention as scaled_dot_product_attention, select as select,
    set_num_threads as set_num_threads, sigmoid as sigmoid, sign as sign, silu as silu,
    sin as sin, sinh as sinh, slice as slice, smooth_l1_loss as smooth_l1_loss,
    soft_margin_loss as soft_margin_loss, softmax as softmax, softplus as softplus, sort as sort,
    split as split, sqrt as sqrt, square as square, squeeze as squeeze, stack as stack,
    std as std, sub as sub, sum as sum, swiglu as swiglu, tan as tan, tanh as tanh,
    tensordot as tensordot, topk as topk, transpose as transpose, tril as tril,
    triplet_margin_loss as triplet_margin_loss, triu as triu, trunc as trunc, u8 as u8,
    unfold as unfold, unsqueeze as unsqueeze, upsample_bilinear2d as upsample_bilinear2d,
    upsample_nearest2d as upsample_nearest2d, var as var, varlen_attention as varlen_attention)
from ._creation import (
    Tensor as Tensor, arange as arange, as_tensor as as_tensor, asarray as asarray,
    empty as empty, empty_like as empty_like, from_dlpack as from_dlpack,
    from_numpy as from_numpy, full as full, full_like as full_like, manual_seed as manual_seed,
    ones as ones, ones_like as ones_like, rand as rand, rand_like as rand_like, randn as randn,
    randn_like as randn_like, randperm as randperm, tensor as tensor, zeros as zeros,
    zeros_like as zeros_like)
from ._dtypes import (
    bfloat16 as bfloat16, bool as bool, double as double, float as float, float16 as float16,
    float32 as float32, float64 as float64, float8_e4m3fn as float8_e4m3fn,
    float8_e5m2 as float8_e5m2, half as half, int as int, int32 as int32, int64 as int64,
    long as long, uint8 as uint8)
from ._functions import (
    allclose as allclose, broadcast_to as broadcast_to, checkpoint as checkpoint, clone as clone,
    concat as concat, concatenate as concatenate, count_nonzero as count_nonzero,
    einsum as einsum, equal as equal, floor_divide as floor_divide, hstack as hstack,
    index_add as index_add, isclose as isclose, movedim as movedim, nansum as nansum,
    narrow as narrow, nonzero as nonzero, ravel as ravel, scatter as scatter,
    scatter_add as scatter_add, swapaxes as swapaxes, take as take,
    take_along_dim as take_along_dim, tile as tile, vstack as vstack, where as where)
from .autograd import (
    enable_grad as enable_grad, no_grad as no_grad, set_grad_enabled as set_grad_enabled)
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
