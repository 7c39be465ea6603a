"""Makes fp4.safetensors: NVFP4 and MXFP4 codes and scales, in numpy and ml_dtypes alone.

README.md defines both; this file follows it line by line and shares nothing with Binade.
"""

import ml_dtypes
import numpy as np
import torch

from golden_common import save

SEED = 20250929
FLT_MAX = np.float32(np.finfo(np.float32).max)
LARGEST = np.float32(6)  # of e2m1
np.seterr(all="ignore")  # overflow, 0 / 0 and NaN are part of what is recorded


def f32(value):
    return np.asarray(value, dtype=np.float32)


def make_inputs():
    rng = np.random.Generator(np.random.PCG64(SEED))
    normal = lambda *shape: f32(rng.standard_normal(shape))
    cases = {
        "normal": normal(8, 64),
        "partial": normal(19, 37) * f32(3),  # neither 16, 32 nor 2 divides the columns
        "weight": normal(48, 80) * f32(0.02),
        "gradient": normal(16, 96) * f32(1e-6) * f32(10.0 ** rng.uniform(-3, 3, (16, 96))),
        "zero": np.zeros((3, 33), np.float32),
        "one": f32([[0.3]]),
    }
    bf16 = normal(16, 64).astype(ml_dtypes.bfloat16)
    cases["bf16"] = f32(bf16)
    spread = normal(6, 96)
    spread[0, :16], spread[1, 16:48] = 0, f32(-0.0)
    spread[2, 32:48] *= f32(1e-9)  # a scale that rounds to 0 beside the tensor's
    spread[3, 48:64] *= f32(2e-4)  # a subnormal scale
    spread[4, 5] = f32(1e4)  # an outlier
    cases["spread"] = spread
    cases["tiny"] = normal(4, 48) * f32(1e-41)  # subnormals of f32: max / amax overflows
    cases["huge"] = np.clip(normal(4, 48) * f32(2e38), -FLT_MAX, FLT_MAX)
    # All ties and limits of e2m1 in a group whose scale is 1 in both formats.
    grid = f32([6, 5, 3.5, 2.5, 1.75, 1.25, 0.75, 0.25, 0.250001, 4.999999, 0, -0.0, -5, -0.25, -6, 1])
    cases["ties"] = np.stack([np.concatenate([grid, grid[::-1]]), np.concatenate([-grid, grid])])
    for name, value in (("infinity", np.inf), ("nan", np.nan)):
        special = normal(4, 64)
        special[2, 21] = value
        cases[name] = special
    return {name: f32(x) for name, x in cases.items()}


def groups_of(x, rows, columns):
    for top in range(0, x.shape[0], rows):
        for left in range(0, x.shape[1], columns):
            yield top // rows, left // columns, (slice(top, top + rows), slice(left, left + columns))


def e2m1(values):
    """Codes, one per byte: nearest even, saturating."""
    return np.clip(f32(values), -LARGEST, LARGEST).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15


def packed(codes):
    """Two codes a byte, the first of each row in the low half."""
    even = np.pad(codes, ((0, 0), (0, codes.shape[1] % 2)))
    return (even[:, ::2] | even[:, 1::2] << 4).astype(np.uint8)


def nvfp4(x, rows):
    """As Transformer Engine computes it; groups of `rows` x 16."""
    amax = f32(np.max(np.abs(x)))
    usable = np.isfinite(amax) and amax > 0
    scale = min(f32(f32(2688) / amax), FLT_MAX) if usable else f32(1)
    inverse = f32(f32(1) / scale)
    multiplier = f32(scale * f32(f32(1) / LARGEST))
    codes = np.zeros(x.shape, np.uint8)
    values = np.zeros(x.shape, np.float32)
    scales = np.zeros((-(-x.shape[0] // rows), -(-x.shape[1] // 16)), np.uint8)
    for i, j, at in groups_of(x, rows, 16):
        largest = f32(np.max(np.abs(x[at])))
        if not np.isfinite(largest):
            scales[i, j] = 0x7F
            values[at] = np.nan
            continue
        stored = f32(min(f32(largest * multiplier), f32(448))).astype(ml_dtypes.float8_e4m3fn)
        factor = f32(f32(1) / f32(f32(stored) * inverse))
        codes[at] = e2m1(x[at] * min(factor, FLT_MAX))
        scales[i, j] = stored.view(np.uint8)
        values[at] = f32(f32(f32(codes[at].view(ml_dtypes.float4_e2m1fn)) * f32(stored)) * inverse)
    return codes, scales, values, inverse


def mxfp4(x):
    """OCP MX, the exponent rounded down; groups of 32 along rows."""
    codes = np.zeros(x.shape, np.uint8)
    values = np.zeros(x.shape, np.float32)
    scales = np.zeros((x.shape[0], -(-x.shape[1] // 32)), np.uint8)
    for i, j, at in groups_of(x, 1, 32):
        largest = np.float64(np.max(np.abs(x[at])))
        if not np.isfinite(largest):
            scales[i, j] = 255
            values[at] = np.nan
            continue
        exponent = max(-127, np.frexp(largest)[1] - 1 - 2) if largest > 0 else -127
        codes[at] = e2m1(np.ldexp(x[at].astype(np.float64), -exponent))
        scales[i, j] = exponent + 127
        values[at] = f32(np.ldexp(codes[at].view(ml_dtypes.float4_e2m1fn).astype(np.float64), exponent))
    return codes, scales, values, None


def main():
    tensors = {}
    for name, x in make_inputs().items():
        tensors["in/" + name] = x
        for recipe, (codes, scales, values, outer) in (
                ("nvfp4", nvfp4(x, 1)), ("nvfp4_16x16", nvfp4(x, 16)), ("mxfp4", mxfp4(x))):
            prefix = f"{recipe}/{name}/"
            tensors[prefix + "data"] = packed(codes)
            tensors[prefix + "scale"] = scales
            tensors[prefix + "values"] = values
            if outer is not None:
                tensors[prefix + "outer"] = f32([outer])
    save("fp4.safetensors", {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in tensors.items()},
         {"oracle": f"numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}"})


main()
