"""The functions behind the layers, under PyTorch's names."""

import functools

from .. import _binade
from .._binade import (  # noqa: F401
    adaptive_avg_pool, adaptive_max_pool, avg_pool, batch_norm, bce_with_logits, bilinear,
    binary_cross_entropy, conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d,
    conv_transpose3d, cosine_similarity, cross_entropy, ctc_loss, dropout, elu, embedding, fold,
    gelu, global_avg_pool, group_norm, hardsigmoid, hardswish, hardtanh, hinge_embedding_loss,
    huber_loss, instance_norm, l1_loss, layer_norm, leaky_relu, linear,
    linear_cross_entropy, log_softmax, logsigmoid, margin_ranking_loss, max_pool, mish, mse_loss,
    multi_margin_loss, nll_loss, normalize, one_hot, pad, pixel_shuffle, prelu, relu, relu6,
    rms_norm, scaled_dot_product_attention, selu, sigmoid, silu, smooth_l1_loss, soft_margin_loss,
    softmax, softplus, softsign, tanh, triplet_margin_loss, unfold, varlen_attention)

binary_cross_entropy_with_logits = bce_with_logits


def pool_of(function, axes):
    """A pool of this many spatial axes, of a batch or of one sample without an axis for it."""
    @functools.wraps(function)
    def pool(input, *args, **kwargs):
        if input.ndim == axes + 1:
            return function(input.unsqueeze(0), *args, **kwargs).squeeze(0)
        if input.ndim != axes + 2:
            _binade._fail(function.__name__, argument="input",
                          expected=f"{axes + 2} axes, or {axes + 1} for one sample",
                          found=str(list(input.shape)))
        return function(input, *args, **kwargs)

    pool.__name__ = pool.__qualname__ = f"{function.__name__}{axes}d"
    return pool


max_pool1d, max_pool2d, max_pool3d = (pool_of(max_pool, axes) for axes in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (pool_of(avg_pool, axes) for axes in (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    pool_of(adaptive_avg_pool, axes) for axes in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    pool_of(adaptive_max_pool, axes) for axes in (1, 2, 3))


def kl_div(input, target, *, reduction="mean", log_target=False):
    """The divergence of `target`, probabilities or their logarithms, from log-probabilities. The
    reduction "batchmean" is the sum over the length of axis 0.

    >>> import binade as bn
    >>> p = bn.tensor([[0.5, 0.5]])
    >>> bn.nn.functional.kl_div(p.log(), p, reduction="batchmean").item()
    0.0
    """
    if reduction != "batchmean":
        return _binade.kl_div(input, target, reduction=reduction, log_target=log_target)
    return _binade.kl_div(input, target, reduction="sum", log_target=log_target) / input.shape[0]
