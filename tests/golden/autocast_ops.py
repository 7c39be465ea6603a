"""The ops of autocast_dtypes.json: a class each, as in PyTorch's CUDA lists, and how to call them.

An entry is name: function(make), where make(*shape) gives a tensor of the next input type and
make.f32(*shape) one that is always f32.
"""

import torch
from torch.nn import functional as F


def indices(make, count):
    return torch.zeros(count, dtype=torch.int64, device=make.device)


def cell(function, gates, state=1):
    """An RNN cell of width 3 over 2 rows; LSTM takes two state tensors."""

    def call(m):
        x, hidden = m(2, 3), [m(2, 3) for _ in range(state)]
        return function(x, hidden if state > 1 else hidden[0], m(gates * 3, 3), m(gates * 3, 3))

    return call


LOWER = {
    "matmul": lambda m: torch.matmul(m(2, 3), m(3, 4)),
    "mm": lambda m: torch.mm(m(2, 3), m(3, 4)),
    "bmm": lambda m: torch.bmm(m(2, 2, 3), m(2, 3, 4)),
    "addmm": lambda m: torch.addmm(m(2, 4), m(2, 3), m(3, 4)),
    "baddbmm": lambda m: torch.baddbmm(m(2, 2, 4), m(2, 2, 3), m(2, 3, 4)),
    "mv": lambda m: torch.mv(m(2, 3), m(3)),
    "linear": lambda m: F.linear(m(2, 3), m(4, 3), m(4)),
    "conv1d": lambda m: F.conv1d(m(1, 2, 5), m(3, 2, 3)),
    "conv2d": lambda m: F.conv2d(m(1, 2, 5, 5), m(3, 2, 3, 3)),
    "conv3d": lambda m: F.conv3d(m(1, 2, 5, 5, 5), m(3, 2, 3, 3, 3)),
    "conv_transpose1d": lambda m: F.conv_transpose1d(m(1, 2, 5), m(2, 3, 3)),
    "conv_transpose2d": lambda m: F.conv_transpose2d(m(1, 2, 5, 5), m(2, 3, 3, 3)),
    "conv_transpose3d": lambda m: F.conv_transpose3d(m(1, 2, 5, 5, 5), m(2, 3, 3, 3, 3)),
    "prelu": lambda m: F.prelu(m(2, 3), m(1)),
    "scaled_dot_product_attention": lambda m: F.scaled_dot_product_attention(
        m(1, 2, 4, 8), m(1, 2, 4, 8), m(1, 2, 4, 8)
    ),
    "rnn_tanh_cell": cell(torch.rnn_tanh_cell, 1),
    "rnn_relu_cell": cell(torch.rnn_relu_cell, 1),
    "lstm_cell": cell(torch.lstm_cell, 4, state=2),
    "gru_cell": cell(torch.gru_cell, 3),
    "einsum": lambda m: torch.einsum("ij,jk->ik", m(2, 3), m(3, 4)),
}

UNARY_F32 = "exp expm1 log log2 log10 log1p reciprocal rsqrt tan sinh cosh acos asin erfinv"
F32 = {name: (lambda f: lambda m: f(m(2, 3)))(getattr(torch, name)) for name in UNARY_F32.split()}
F32 |= {
    "pow": lambda m: torch.pow(m(2, 3), 2.0),
    "softplus": lambda m: F.softplus(m(2, 3)),
    "layer_norm": lambda m: F.layer_norm(m(2, 3), [3], m(3), m(3)),
    "group_norm": lambda m: F.group_norm(m(2, 4, 3), 2, m(4), m(4)),
    "rms_norm": lambda m: F.rms_norm(m(2, 3), [3], m(3), 1e-5),
    "cosine_similarity": lambda m: F.cosine_similarity(m(2, 3), m(2, 3)),
    "cdist": lambda m: torch.cdist(m(2, 3), m(4, 3)),
    "logsumexp": lambda m: torch.logsumexp(m(2, 3), 1),
    "upsample_nearest2d": lambda m: torch.ops.aten.upsample_nearest2d(m(1, 2, 3, 3), [6, 6]),
    "upsample_bilinear2d": lambda m: torch.ops.aten.upsample_bilinear2d(
        m(1, 2, 3, 3), [6, 6], False
    ),
    "nll_loss": lambda m: F.nll_loss(m(2, 3), indices(m, 2)),
    "cross_entropy": lambda m: F.cross_entropy(m(2, 3), indices(m, 2)),
    "kl_div": lambda m: F.kl_div(m(2, 3), m(2, 3), reduction="sum"),
    "mse_loss": lambda m: F.mse_loss(m(2, 3), m(2, 3)),
    "l1_loss": lambda m: F.l1_loss(m(2, 3), m(2, 3)),
    "smooth_l1_loss": lambda m: F.smooth_l1_loss(m(2, 3), m(2, 3)),
    "huber_loss": lambda m: F.huber_loss(m(2, 3), m(2, 3)),
    "bce_with_logits": lambda m: F.binary_cross_entropy_with_logits(m(2, 3), m(2, 3)),
    "soft_margin_loss": lambda m: F.soft_margin_loss(m(2, 3), m(2, 3)),
    "margin_ranking_loss": lambda m: F.margin_ranking_loss(m(3), m(3), m(3)),
    "triplet_margin_loss": lambda m: F.triplet_margin_loss(m(2, 3), m(2, 3), m(2, 3)),
    "multi_margin_loss": lambda m: F.multi_margin_loss(m(2, 3), indices(m, 2)),
    "hinge_embedding_loss": lambda m: F.hinge_embedding_loss(m(2, 3), m(2, 3)),
}

# These take a dtype; `dtype=None` is what a caller gives who names none.
F32_UNLESS_NAMED = {
    "softmax": lambda m, dtype=None: torch.softmax(m(2, 3), 1, dtype=dtype),
    "log_softmax": lambda m, dtype=None: torch.log_softmax(m(2, 3), 1, dtype=dtype),
    "sum": lambda m, dtype=None: torch.sum(m(2, 3), 1, dtype=dtype),
    "prod": lambda m, dtype=None: torch.prod(m(2, 3), 1, dtype=dtype),
    "cumsum": lambda m, dtype=None: torch.cumsum(m(2, 3), 1, dtype=dtype),
    "cumprod": lambda m, dtype=None: torch.cumprod(m(2, 3), 1, dtype=dtype),
    "vector_norm": lambda m, dtype=None: torch.linalg.vector_norm(m(2, 3), dtype=dtype),
}

PROMOTE = {
    "addcdiv": lambda m: torch.addcdiv(m(2, 3), m(2, 3), m(2, 3)),
    "addcmul": lambda m: torch.addcmul(m(2, 3), m(2, 3), m(2, 3)),
    "atan2": lambda m: torch.atan2(m(2, 3), m(2, 3)),
    "bilinear": lambda m: F.bilinear(m(2, 3), m(2, 4), m(5, 3, 4)),
    "cross": lambda m: torch.cross(m(2, 3), m(2, 3), dim=1),
    "dot": lambda m: torch.dot(m(3), m(3)),
    "index_put": lambda m: torch.index_put(m(3), (indices(m, 2),), m(2)),
    "scatter_add": lambda m: torch.scatter_add(m(3), 0, indices(m, 2), m(2)),
    "cat": lambda m: torch.cat([m(2, 3), m(2, 3)]),
    "stack": lambda m: torch.stack([m(2, 3), m(2, 3)]),
    "grid_sampler": lambda m: F.grid_sample(m(1, 2, 3, 3), m(1, 2, 2, 2), align_corners=False),
    "tensordot": lambda m: torch.tensordot(m(2, 3), m(3, 4), 1),
}

REFUSED = {"binary_cross_entropy": lambda m: F.binary_cross_entropy(m(2, 3), m(2, 3))}

AS_IS = {
    "add": lambda m: m(2, 3) + m(2, 3),
    "mul": lambda m: m(2, 3) * m(2, 3),
    "maximum": lambda m: torch.maximum(m(2, 3), m(2, 3)),
    "where": lambda m: torch.where(m.f32(2, 3) > 0, m(2, 3), m(2, 3)),
    "abs": lambda m: m(2, 3).abs(),
    "sqrt": lambda m: m(2, 3).sqrt(),
    "tanh": lambda m: m(2, 3).tanh(),
    "sigmoid": lambda m: m(2, 3).sigmoid(),
    "relu": lambda m: F.relu(m(2, 3)),
    "gelu": lambda m: F.gelu(m(2, 3)),
    "silu": lambda m: F.silu(m(2, 3)),
    "mean": lambda m: m(2, 3).mean(1),
    "var": lambda m: m(2, 3).var(1),
    "max": lambda m: m(2, 3).max(1).values,
    "embedding": lambda m: F.embedding(indices(m, 2), m(4, 3)),
    "gather": lambda m: torch.gather(m(3), 0, indices(m, 2)),
    "index_select": lambda m: torch.index_select(m(3), 0, indices(m, 2)),
    "max_pool2d": lambda m: F.max_pool2d(m(1, 2, 4, 4), 2),
    "avg_pool2d": lambda m: F.avg_pool2d(m(1, 2, 4, 4), 2),
    "adaptive_avg_pool2d": lambda m: F.adaptive_avg_pool2d(m(1, 2, 4, 4), 1),
    "dropout": lambda m: F.dropout(m(2, 3), 0.5),
    "batch_norm": lambda m: F.batch_norm(
        m(4, 3), m.f32(3), m.f32(3), m.f32(3), m.f32(3), training=True
    ),
    "remainder": lambda m: torch.remainder(m(2, 3), m(2, 3)),
    "elu": lambda m: F.elu(m(2, 3)),
    "mish": lambda m: F.mish(m(2, 3)),
    "hardsigmoid": lambda m: F.hardsigmoid(m(2, 3)),
    "hardswish": lambda m: F.hardswish(m(2, 3)),
    "std": lambda m: m(2, 3).std(1),
    "flip": lambda m: m(2, 3).flip(0),
    "roll": lambda m: m(2, 3).roll(1, 0),
    "tril": lambda m: m(2, 3).tril(),
    "pad": lambda m: F.pad(m(2, 3), [1, 1]),
    "masked_fill": lambda m: m(2, 3).masked_fill(m.f32(2, 3) > 0, 1.0),
    "sort": lambda m: m(2, 3).sort().values,
    "topk": lambda m: m(2, 3).topk(2).values,
    "adaptive_max_pool2d": lambda m: F.adaptive_max_pool2d(m(1, 2, 4, 4), 2),
    "unfold": lambda m: F.unfold(m(1, 2, 4, 4), 2),
    "fold": lambda m: F.fold(m(1, 4, 9), [4, 4], 2),
    "instance_norm": lambda m: F.instance_norm(m(2, 3, 4)),
}

CLASSES = {
    "lower": LOWER,
    "f32": F32,
    "f32_unless_named": F32_UNLESS_NAMED,
    "promote": PROMOTE,
    "refused": REFUSED,
    "as_is": AS_IS,
}
