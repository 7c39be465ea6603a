"""Cases of ops.safetensors: what layers are made of. Parameters carry PyTorch's argument names."""

import torch
from torch.nn import functional as F


def activations(r):
    n = r.inputs.normal
    positive = torch.tensor([1e-8, 1e-3, 0.5, 1.0, 3.0, 5.5, 12.0, 25.0])
    wide = torch.cat([-positive, torch.zeros(1), positive])
    pair = [({}, {"x": n(3, 7)}), ({}, {"x": wide})]

    def approximate(kind):
        return [({"approximate": kind}, inputs) for _, inputs in pair]

    r.op("gelu", lambda p, x: F.gelu(x, **p), approximate("none") + approximate("tanh"))
    r.op("silu", lambda p, x: F.silu(x), pair)
    r.op("softplus", lambda p, x: F.softplus(x, **p), [
        ({"beta": 1.0, "threshold": 20.0}, {"x": wide}),
        ({"beta": 2.5, "threshold": 4.0}, {"x": n(3, 7)}),
    ])
    r.op("swiglu", lambda p, gate, up: F.silu(gate) * up, [
        ({}, {"gate": n(3, 7), "up": n(3, 7)}),
        ({}, {"gate": n(2, 3, 5, scale=4), "up": n(2, 3, 5)}),
    ])
    soft = [
        ({"dim": -1}, {"x": n(3, 17)}),
        ({"dim": 1}, {"x": n(2, 5, 3, scale=10)}),
        ({"dim": 0}, {"x": n(7, 3, shift=100)}),
    ]
    r.op("softmax", lambda p, x: F.softmax(x, **p), soft)
    r.op("log_softmax", lambda p, x: F.log_softmax(x, **p), soft)
    r.op("logsumexp", lambda p, x: torch.logsumexp(x, **p), [
        ({"dim": [-1], "keepdim": False}, {"x": n(3, 17)}),
        ({"dim": [1], "keepdim": True}, {"x": n(2, 5, 3, scale=10)}),
        ({"dim": [0, 2], "keepdim": False}, {"x": n(3, 2, 5, shift=100)}),
    ])


def norms(r):
    n, u = r.inputs.normal, r.inputs.uniform

    def affine(x, size):
        return {"x": x, "weight": n(size, shift=1, scale=0.3), "bias": n(size)}

    def layer_norm(p, x, weight=None, bias=None):
        return F.layer_norm(x, p["normalized_shape"], weight, bias, p["eps"])

    r.op("layer_norm", layer_norm, [
        ({"normalized_shape": [17], "eps": 1e-5}, affine(n(3, 5, 17), 17)),
        ({"normalized_shape": [33], "eps": 1e-6}, affine(n(7, 33, shift=1000), 33)),
        ({"normalized_shape": [3, 5], "eps": 1e-5}, {"x": n(4, 3, 5)}),
    ])

    def rms_norm(p, x, weight=None):
        return F.rms_norm(x, p["normalized_shape"], weight, p["eps"])

    r.op("rms_norm", rms_norm, [
        ({"normalized_shape": [17], "eps": 1e-5}, {"x": n(3, 5, 17), "weight": n(17, shift=1)}),
        ({"normalized_shape": [33], "eps": 1e-6}, {"x": n(7, 33, scale=1e-3), "weight": n(33)}),
        ({"normalized_shape": [9], "eps": 1e-5}, {"x": n(4, 9)}),
    ])

    def batch_norm(p, x, weight, bias, running_mean, running_var):
        mean, var = running_mean.clone(), running_var.clone()
        y = F.batch_norm(x, mean, var, weight, bias, p["training"], p["momentum"], p["eps"])
        return y, mean, var

    def batch(x):
        size = x.shape[1]
        running = {"running_mean": n(size), "running_var": u(size, low=0.5, high=2.0)}
        return affine(x, size) | running

    train, evaluate = ({"training": t, "momentum": 0.1, "eps": 1e-5} for t in (True, False))
    r.op("batch_norm", batch_norm, [
        (train, batch(n(7, 5))),
        (train, batch(n(3, 5, 4, 3, shift=2))),
        (train | {"momentum": 0.3}, batch(n(2, 3, 7))),
        (evaluate, batch(n(7, 5))),
        (evaluate, batch(n(3, 5, 4, 3))),
    ], outputs=("y", "running_mean", "running_var"), fixed=("running_mean", "running_var"))

    def group_norm(p, x, weight, bias):
        return F.group_norm(x, p["num_groups"], weight, bias, p["eps"])

    r.op("group_norm", group_norm, [
        ({"num_groups": 3, "eps": 1e-5}, affine(n(2, 6, 5, 3), 6)),
        ({"num_groups": 1, "eps": 1e-5}, affine(n(3, 5, 7), 5)),
        ({"num_groups": 5, "eps": 1e-6}, affine(n(3, 5, 2, 3), 5)),
    ])


def convolutions(r):
    n = r.inputs.normal

    def conv(function):
        return lambda p, x, weight, bias=None: function(x, weight, bias, **p)

    def given(x, weight, bias):
        return {"x": n(*x), "weight": n(*weight)} | ({"bias": n(bias)} if bias else {})

    def at(stride, padding, dilation, groups):
        return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def up(stride, padding, output_padding, dilation, groups):
        return at(stride, padding, dilation, groups) | {"output_padding": output_padding}

    r.op("conv1d", conv(F.conv1d), [
        (at([1], [0], [1], 1), given((2, 3, 11), (5, 3, 3), 5)),
        (at([2], [3], [2], 2), given((2, 4, 13), (6, 2, 3), 0)),
        (at([3], [1], [1], 4), given((1, 4, 10), (4, 1, 5), 4)),
    ])
    r.op("conv2d", conv(F.conv2d), [
        (at([1, 1], [1, 1], [1, 1], 1), given((2, 3, 7, 5), (5, 3, 3, 3), 5)),
        (at([2, 3], [2, 1], [1, 2], 2), given((2, 4, 9, 11), (6, 2, 5, 3), 6)),
        (at([1, 1], [0, 0], [1, 1], 1), given((2, 5, 4, 3), (3, 5, 1, 1), 0)),
        (at([2, 2], [1, 1], [1, 1], 3), given((1, 3, 7, 7), (6, 1, 3, 3), 0)),
    ])
    r.op("conv3d", conv(F.conv3d), [
        (at([1, 1, 1], [1, 1, 1], [1, 1, 1], 1), given((1, 2, 3, 5, 4), (3, 2, 3, 3, 3), 3)),
        (at([2, 1, 2], [0, 2, 1], [1, 2, 1], 2), given((2, 4, 5, 4, 3), (4, 2, 2, 3, 2), 0)),
    ])
    r.op("conv_transpose1d", conv(F.conv_transpose1d), [
        (up([1], [0], [0], [1], 1), given((2, 3, 7), (3, 5, 3), 5)),
        (up([3], [1], [2], [2], 2), given((2, 4, 5), (4, 3, 3), 0)),
    ])
    r.op("conv_transpose2d", conv(F.conv_transpose2d), [
        (up([2, 2], [1, 1], [1, 1], [1, 1], 1), given((2, 3, 4, 5), (3, 5, 3, 3), 5)),
        (up([2, 3], [0, 2], [1, 0], [1, 2], 2), given((2, 4, 3, 5), (4, 3, 2, 3), 6)),
        (up([1, 1], [1, 0], [0, 0], [1, 1], 1), given((1, 2, 5, 3), (2, 3, 3, 1), 0)),
    ])
    r.op("conv_transpose3d", conv(F.conv_transpose3d), [
        (up([2, 1, 2], [1, 0, 1], [1, 0, 0], [1, 1, 1], 1),
         given((1, 2, 3, 2, 3), (2, 3, 3, 2, 3), 3)),
        (up([1, 2, 1], [0, 1, 1], [0, 1, 0], [2, 1, 1], 2),
         given((2, 4, 2, 3, 2), (4, 1, 2, 3, 3), 0)),
    ])


def pooling(r):
    n = r.inputs.normal
    r.op("max_pool1d", lambda p, x: F.max_pool1d(x, **p), [
        ({"kernel_size": [2], "stride": [2], "padding": [0]}, {"x": n(2, 3, 11)}),
        ({"kernel_size": [3], "stride": [2], "padding": [1]}, {"x": n(2, 3, 11)}),
    ])
    r.op("max_pool2d", lambda p, x: F.max_pool2d(x, **p), [
        ({"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0]}, {"x": n(2, 3, 7, 5)}),
        ({"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}, {"x": n(2, 3, 7, 5)}),
        ({"kernel_size": [3, 2], "stride": [1, 3], "padding": [0, 1]}, {"x": n(1, 2, 5, 9)}),
    ])
    def average(kernel, stride, padding, count_include_pad=True):
        shape = {"kernel_size": kernel, "stride": stride, "padding": padding}
        return shape | {"count_include_pad": count_include_pad}

    r.op("avg_pool1d", lambda p, x: F.avg_pool1d(x, **p), [
        (average([2], [2], [0]), {"x": n(2, 3, 11)}),
        (average([3], [2], [1]), {"x": n(2, 3, 11)}),
    ])
    r.op("avg_pool2d", lambda p, x: F.avg_pool2d(x, **p), [
        (average([2, 2], [2, 2], [0, 0]), {"x": n(2, 3, 7, 5)}),
        (average([3, 3], [2, 2], [1, 1]), {"x": n(2, 3, 7, 5)}),
        (average([3, 3], [2, 1], [1, 1], count_include_pad=False), {"x": n(2, 3, 7, 5)}),
    ])
    r.op("adaptive_avg_pool2d", lambda p, x: F.adaptive_avg_pool2d(x, **p), [
        ({"output_size": [1, 1]}, {"x": n(2, 3, 7, 5)}),
        ({"output_size": [1, 1]}, {"x": n(1, 5, 1, 3)}),
    ])


def attention(r):
    n = r.inputs.normal

    def qkv(batch, heads, kv_heads, queries, keys, width):
        kv = (batch, kv_heads, keys, width)
        return {"q": n(batch, heads, queries, width), "k": n(*kv), "v": n(*kv)}

    def at(is_causal=False, scale=None, enable_gqa=False):
        return {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}

    def sdpa(p, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, **p)

    r.op("scaled_dot_product_attention", sdpa, [
        (at(), qkv(2, 3, 3, 7, 7, 8)),
        (at(is_causal=True), qkv(2, 3, 3, 7, 7, 8)),
        (at(is_causal=True, enable_gqa=True), qkv(2, 6, 2, 9, 9, 5)),
        (at(scale=0.7), qkv(1, 2, 2, 5, 11, 8)),
        (at(is_causal=True, scale=0.05, enable_gqa=True), qkv(1, 4, 1, 33, 33, 6)),
    ])

    def rope(p, x):
        """Rotate-half on [batch, heads, time, width]: channel i turns with channel i + width/2."""
        half = x.shape[-1] // 2
        frequency = p["theta"] ** (-torch.arange(half, dtype=torch.float64) * 2 / x.shape[-1])
        position = torch.arange(x.shape[-2], dtype=torch.float64) + p["offset"]
        angle = torch.outer(position, frequency)
        cos, sin = angle.cos(), angle.sin()
        low, high = x[..., :half], x[..., half:]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)

    r.op("rope", rope, [
        ({"theta": 10000.0, "offset": 0}, {"x": n(2, 3, 7, 8)}),
        ({"theta": 500000.0, "offset": 5}, {"x": n(1, 2, 5, 6)}),
    ])
