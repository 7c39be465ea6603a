"""Cases of ops.safetensors: elements moved and masked, windows, sums of products, and their kin."""

import torch
from torch.nn import functional as F


def rearranging(r):
    n = r.inputs.normal
    r.op("flip", lambda p, x: torch.flip(x, **p), [
        ({"dims": [1]}, {"x": n(3, 5)}),
        ({"dims": [0, 2]}, {"x": n(2, 3, 4)}),
    ])
    r.op("roll", lambda p, x: torch.roll(x, p["shifts"], p["dims"] or None), [
        ({"shifts": [2], "dims": [1]}, {"x": n(3, 5)}),
        ({"shifts": [-1, 4], "dims": [0, 1]}, {"x": n(3, 5)}),
        ({"shifts": [7], "dims": []}, {"x": n(3, 5)}),
    ])
    r.op("repeat", lambda p, x: x.repeat(p["repeats"]), [
        ({"repeats": [2, 1, 3]}, {"x": n(2, 3)}),
    ])
    r.op("tril", lambda p, x: torch.tril(x, **p), [
        ({"diagonal": 0}, {"x": n(4, 5)}),
        ({"diagonal": -1}, {"x": n(2, 4, 3)}),
    ])
    r.op("triu", lambda p, x: torch.triu(x, **p), [
        ({"diagonal": 1}, {"x": n(4, 5)}),
    ])
    r.op("pad", lambda p, x: F.pad(x, **p), [
        ({"pad": [1, 2, 0, 3], "mode": "constant", "value": 0.5}, {"x": n(1, 2, 3, 4)}),
        ({"pad": [-1, 2], "mode": "constant", "value": 0.0}, {"x": n(3, 4)}),
        ({"pad": [3, 1, 2, 0], "mode": "reflect", "value": None}, {"x": n(1, 2, 3, 4)}),
        ({"pad": [5, 1, 2, 0], "mode": "replicate", "value": None}, {"x": n(1, 2, 3, 4)}),
    ])
    order = lambda p, x: tuple(torch.sort(x, stable=True, **p))
    ties = torch.tensor([[1.0, 3.0, 1.0, 2.0, 3.0], [0.0, -1.0, 5.0, 0.0, -1.0]])
    r.op("sort", order, [
        ({"dim": 1, "descending": False}, {"x": ties}),
        ({"dim": 1, "descending": True}, {"x": ties}),
        ({"dim": 0, "descending": False}, {"x": n(5, 3)}),
    ], outputs=("values", "indices"))
    r.op("topk", lambda p, x: tuple(torch.topk(x, **p)), [
        ({"k": 3, "dim": 1, "largest": True}, {"x": n(3, 7)}),
        ({"k": 2, "dim": 0, "largest": False}, {"x": n(5, 3)}),
    ], outputs=("values", "indices"))
    r.op("one_hot", lambda p, i: F.one_hot(i, **p), [
        ({"num_classes": 5}, {"index": r.inputs.integers(2, 3, high=5)}),
    ])


def windows(r):
    n = r.inputs.normal

    def at(kernel, stride=1, padding=0, dilation=1):
        return {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}

    r.op("unfold", lambda p, x: F.unfold(x, **p), [
        (at(3), {"x": n(2, 2, 5, 4)}),
        (at(2, stride=2, padding=1, dilation=2), {"x": n(1, 2, 5, 6)}),
    ])
    r.op("fold", lambda p, x: F.fold(x, **p), [
        (at(3, padding=1) | {"output_size": [4, 5]}, {"x": n(2, 18, 20)}),
        (at(2, stride=2) | {"output_size": [4, 6]}, {"x": n(1, 8, 6)}),
    ])
    r.op("adaptive_avg_pool", lambda p, x: F.adaptive_avg_pool2d(x, **p), [
        ({"output_size": [3, 4]}, {"x": n(2, 2, 7, 5)}),
        ({"output_size": [5, 2]}, {"x": n(1, 2, 3, 6)}),
    ])
    r.op("adaptive_max_pool", lambda p, x: F.adaptive_max_pool2d(x, **p), [
        ({"output_size": [3, 4]}, {"x": n(2, 2, 7, 5)}),
    ])
    r.op("instance_norm", lambda p, x, w, b: F.instance_norm(x, weight=w, bias=b, **p), [
        ({"eps": 1e-5}, {"x": n(2, 3, 4, 5), "weight": n(3), "bias": n(3)}),
    ])


def activations(r):
    wide = lambda: torch.cat([r.inputs.normal(4, 6, scale=3.0).flatten(), torch.tensor([0.0])])
    r.op("elu", lambda p, x: F.elu(x, **p), [({"alpha": 1.0}, {"x": wide()}),
                                             ({"alpha": 0.3}, {"x": wide()})])
    for name in ("mish", "hardsigmoid", "hardswish"):
        function = getattr(F, name)
        r.op(name, lambda p, x: function(x), [({}, {"x": wide()})])
    r.op("remainder", lambda p, a, b: torch.remainder(a, b), [
        ({}, {"a": r.inputs.normal(5, 4, scale=5.0), "b": r.inputs.normal(5, 4, shift=0.5)}),
    ])
    r.op("std", lambda p, x: torch.std(x, **p), [
        ({"dim": [1], "keepdim": False, "correction": 1}, {"x": r.inputs.normal(3, 5)}),
        ({"dim": [0, 2], "keepdim": True, "correction": 0}, {"x": r.inputs.normal(2, 3, 4)}),
    ])


def einsum(r):
    n = r.inputs.normal
    equation = lambda text: {"equation": text}
    r.op("einsum", lambda p, *x: torch.einsum(p["equation"], *x), [
        (equation("ii->i"), {"a": n(4, 4)}),
        (equation("...ii->..."), {"a": n(2, 3, 3)}),
        (equation("ba"), {"a": n(3, 4)}),
        (equation("b...a,a"), {"a": n(2, 3, 4), "b": n(4)}),
        (equation("...ij,...jk->...ik"), {"a": n(1, 3, 2, 4), "b": n(5, 1, 4, 3)}),
        (equation("ij,jk,kl->il"), {"a": n(2, 3), "b": n(3, 4), "c": n(4, 5)}),
        (equation("bi,bij,bj->b"), {"a": n(3, 4), "b": n(3, 4, 5), "c": n(3, 5)}),
        (equation("i,j,k,l->lkji"), {"a": n(2), "b": n(3), "c": n(2), "d": n(3)}),
        (equation("iij,jk->k"), {"a": n(3, 3, 2), "b": n(2, 4)}),
    ])


def masked_attention(r):
    n = r.inputs.normal

    def qkv(batch, heads, queries, keys, width):
        kv = (batch, heads, keys, width)
        return {"q": n(batch, heads, queries, width), "k": n(*kv), "v": n(*kv)}

    def sdpa(p, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    boolean = torch.ones(2, 1, 5, 7, dtype=torch.bool).tril(1)
    boolean[1, 0, 2] = False
    r.op("masked_attention", sdpa, [
        ({}, qkv(2, 3, 5, 7, 4) | {"mask": boolean}),
        ({}, qkv(2, 3, 5, 7, 4) | {"mask": n(3, 5, 7)}),
    ])


def ctc(r):
    """Through log_softmax: PyTorch's own gradient assumes it."""
    def loss(p, x, targets):
        return F.ctc_loss(F.log_softmax(x, 2), targets, p["input_lengths"], p["target_lengths"],
                          blank=p["blank"], reduction=p["reduction"],
                          zero_infinity=p["zero_infinity"])

    def at(input_lengths, target_lengths, reduction="mean", blank=0, zero_infinity=False):
        return {"input_lengths": input_lengths, "target_lengths": target_lengths, "blank": blank,
                "reduction": reduction, "zero_infinity": zero_infinity}

    n = r.inputs.normal
    labels = torch.tensor([[1, 2, 2, 4], [3, 1, 0, 0], [4, 4, 4, 4]])
    r.op("ctc_loss", loss, [
        (at([9, 7, 8], [4, 2, 4]), {"x": n(9, 3, 5), "targets": labels}),
        (at([9, 9, 9], [4, 2, 3], "none"), {"x": n(9, 3, 5), "targets": labels}),
        (at([5, 9, 3], [4, 2, 4], "sum", zero_infinity=True), {"x": n(9, 3, 5), "targets": labels}),
        (at([9, 6], [2, 3], "sum", blank=4), {"x": n(9, 2, 5), "targets": torch.tensor(
            [[1, 2, 0], [3, 3, 0]])}),
    ])


def all_groups(r):
    rearranging(r)
    windows(r)
    activations(r)
    einsum(r)
    masked_attention(r)
    ctc(r)
