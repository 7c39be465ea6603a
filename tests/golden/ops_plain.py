"""Cases of ops.safetensors: losses, indexing, reductions and matrix products."""

import torch
from torch.nn import functional as F


def losses(r):
    n, u, ints = r.inputs.normal, r.inputs.uniform, r.inputs.integers
    ignored = torch.tensor([3, -100, 0, 6, -100, 2])

    def at(reduction, **more):
        return {"reduction": reduction} | more

    def ce(reduction, label_smoothing=0.0, ignore_index=-100):
        return at(reduction, label_smoothing=label_smoothing, ignore_index=ignore_index)

    r.op("cross_entropy", lambda p, x, target: F.cross_entropy(x, target, **p), [
        (ce("mean"), {"x": n(5, 7), "target": ints(5, high=7)}),
        (ce("sum", label_smoothing=0.1), {"x": n(5, 7, scale=5), "target": ints(5, high=7)}),
        (ce("none", label_smoothing=0.1), {"x": n(6, 7), "target": ignored}),
        (ce("mean", label_smoothing=0.2), {"x": n(6, 7), "target": ignored}),
        (ce("mean", ignore_index=3), {"x": n(6, 7, shift=50), "target": ints(6, high=7)}),
        (ce("mean"), {"x": n(2, 5, 3), "target": ints(2, 3, high=5)}),
    ])
    r.op("nll_loss", lambda p, x, target: F.nll_loss(x, target, **p), [
        (at("mean", ignore_index=-100), {"x": n(6, 7), "target": ignored}),
        (at("sum", ignore_index=-100), {"x": n(5, 7), "target": ints(5, high=7)}),
        (at("none", ignore_index=2), {"x": n(6, 4), "target": torch.tensor([0, 2, 1, 3, 2, 2])}),
    ])

    def pair(*shape):
        return {"x": n(*shape), "target": n(*shape)}

    plain = [(at(reduction), pair(3, 7)) for reduction in ("mean", "sum", "none")]
    r.op("mse_loss", lambda p, x, target: F.mse_loss(x, target, **p), plain)
    r.op("l1_loss", lambda p, x, target: F.l1_loss(x, target, **p), plain)
    r.op("smooth_l1_loss", lambda p, x, target: F.smooth_l1_loss(x, target, **p), [
        (at("mean", beta=1.0), pair(3, 7)),
        (at("sum", beta=0.3), pair(3, 7)),
        (at("none", beta=2.0), pair(5)),
    ])
    r.op("huber_loss", lambda p, x, target: F.huber_loss(x, target, **p), [
        (at("mean", delta=1.0), pair(3, 7)),
        (at("sum", delta=0.3), pair(3, 7)),
        (at("none", delta=2.0), pair(5)),
    ])

    def bce(p, x, target, pos_weight=None):
        return F.binary_cross_entropy_with_logits(x, target, pos_weight=pos_weight, **p)

    r.op("bce_with_logits", bce, [
        (at("mean"), {"x": n(3, 7, scale=5), "target": u(3, 7)}),
        (at("sum"), {"x": n(3, 7), "target": u(3, 7), "pos_weight": u(7, low=0.2, high=4)}),
        (at("none"), {"x": n(5, scale=40), "target": u(5).round(), "pos_weight": u(5, high=4)}),
    ], fixed=("pos_weight",))

    logs = F.log_softmax(n(3, 7).double(), -1).float()
    probabilities = F.softmax(n(3, 7).double(), -1).float()
    log_probabilities = probabilities.double().log().float()
    with_zero = probabilities.clone()
    with_zero[1, 2] = 0.0
    r.op("kl_div", lambda p, x, target: F.kl_div(x, target, **p), [
        (at("batchmean", log_target=False), {"x": logs, "target": probabilities}),
        (at("batchmean", log_target=True), {"x": logs, "target": log_probabilities}),
        (at("mean", log_target=False), {"x": logs, "target": with_zero}),
        (at("none", log_target=True), {"x": logs, "target": logs.flip(0)}),
        (at("sum", log_target=False), {"x": logs, "target": probabilities}),
    ])


def indexing(r):
    n, ints = r.inputs.normal, r.inputs.integers
    r.op("embedding", lambda p, indices, weight: F.embedding(indices, weight), [
        ({}, {"indices": ints(5, high=11), "weight": n(11, 3)}),
        ({}, {"indices": ints(2, 7, high=4), "weight": n(4, 5)}),
    ])
    r.op("gather", lambda p, x, index: torch.gather(x, p["dim"], index), [
        ({"dim": 1}, {"x": n(3, 7), "index": ints(3, 5, high=7)}),
        ({"dim": 0}, {"x": n(3, 7), "index": ints(5, 4, high=3)}),
        ({"dim": -1}, {"x": n(2, 3, 5), "index": ints(2, 2, 7, high=5)}),
    ])
    r.op("index_select", lambda p, x, index: torch.index_select(x, p["dim"], index), [
        ({"dim": 0}, {"x": n(5, 3), "index": torch.tensor([4, 0, 0, 2])}),
        ({"dim": 1}, {"x": n(2, 5, 3), "index": torch.tensor([1, 1, 4, 3, 0, 2, 1])}),
    ])
    r.op("scatter_add", lambda p, x, index, src: torch.scatter_add(x, p["dim"], index, src), [
        ({"dim": 0}, {"x": n(4, 5), "index": ints(7, 5, high=4), "src": n(7, 5)}),
        ({"dim": 1}, {"x": n(3, 7), "index": ints(2, 9, high=7), "src": n(2, 9)}),
    ])


def reductions(r):
    n = r.inputs.normal
    r.op("var", lambda p, x: torch.var(x, **p), [
        ({"dim": [1], "correction": 1, "keepdim": False}, {"x": n(3, 7)}),
        ({"dim": [1], "correction": 0, "keepdim": True}, {"x": n(3, 7, shift=1000)}),
        ({"dim": [0, 2], "correction": 1, "keepdim": False}, {"x": n(3, 2, 5)}),
        ({"dim": [0, 1], "correction": 0, "keepdim": False}, {"x": n(3, 7)}),
    ])

    def norm(p, x):
        return torch.linalg.vector_norm(x, ord=float(p["p"]), dim=p["dim"], keepdim=p["keepdim"])

    def norm_at(p, dim, keepdim=False):
        return {"p": p, "dim": dim, "keepdim": keepdim}

    r.op("norm", norm, [
        (norm_at("1", [1]), {"x": n(3, 7)}),
        (norm_at("2", [1], True), {"x": n(3, 7)}),
        (norm_at("inf", [1]), {"x": n(3, 7)}),
        (norm_at("1", [0, 1]), {"x": n(5, 3)}),
        (norm_at("2", [0, 1, 2]), {"x": n(2, 3, 5)}),
        (norm_at("inf", [0, 2]), {"x": n(3, 2, 5)}),
    ])
    one_zero, two_zeros = n(3, 5), n(3, 5)
    one_zero[1, 3] = 0.0
    two_zeros[1, 3] = two_zeros[1, 0] = 0.0
    r.op("prod", lambda p, x: torch.prod(x, **p), [
        ({"dim": 1, "keepdim": False}, {"x": n(3, 7)}),
        ({"dim": 1, "keepdim": True}, {"x": one_zero}),
        ({"dim": 1, "keepdim": False}, {"x": two_zeros}),
        ({"dim": 0, "keepdim": False}, {"x": n(3, 2, 5)}),
    ])
    r.op("cumsum", lambda p, x: torch.cumsum(x, **p), [
        ({"dim": 0}, {"x": n(17)}),
        ({"dim": 1}, {"x": n(3, 7, 2)}),
        ({"dim": -1}, {"x": n(2, 3, 9)}),
    ])
    extremes = [
        ({"dim": 1, "keepdim": False}, {"x": n(3, 7)}),
        ({"dim": 0, "keepdim": True}, {"x": n(5, 3)}),
        ({"dim": -2, "keepdim": False}, {"x": n(2, 5, 3)}),
    ]
    r.op("max", lambda p, x: tuple(torch.max(x, **p)), extremes, outputs=("values", "indices"))
    r.op("min", lambda p, x: tuple(torch.min(x, **p)), extremes, outputs=("values", "indices"))
    r.op("argmax", lambda p, x: torch.argmax(x, **p), extremes, outputs=("indices",))


def products(r):
    n = r.inputs.normal

    def pair(a, b):
        return ({}, {"a": n(*a), "b": n(*b)})

    r.op("matmul", lambda p, a, b: torch.matmul(a, b), [
        pair((7,), (7,)),
        pair((3, 7), (7,)),
        pair((7,), (7, 5)),
        pair((3, 7), (7, 5)),
        pair((2, 3, 7), (7, 5)),
        pair((2, 3, 7), (7,)),
        pair((7,), (2, 7, 3)),
        pair((2, 1, 3, 5), (4, 5, 2)),
        pair((33, 17), (17, 19)),
    ])
    r.op("bmm", lambda p, a, b: torch.bmm(a, b), [
        pair((3, 5, 7), (3, 7, 2)),
        pair((1, 1, 9), (1, 9, 11)),
    ])

    def addmm(p, bias, a, b):
        return torch.addmm(bias, a, b, beta=p["beta"], alpha=p["alpha"])

    r.op("addmm", addmm, [
        ({"beta": 1.0, "alpha": 1.0}, {"input": n(5), "a": n(3, 7), "b": n(7, 5)}),
        ({"beta": 0.5, "alpha": -2.0}, {"input": n(3, 5), "a": n(3, 7), "b": n(7, 5)}),
    ])
    r.op("linear", lambda p, x, weight, bias=None: F.linear(x, weight, bias), [
        ({}, {"x": n(3, 7), "weight": n(5, 7), "bias": n(5)}),
        ({}, {"x": n(2, 3, 17), "weight": n(9, 17), "bias": n(9)}),
        ({}, {"x": n(7), "weight": n(5, 7)}),
    ])
