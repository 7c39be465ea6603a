"""Makes recipes.safetensors: codes and scales of groups, in numpy and ml_dtypes alone.

README.md defines the rules; this file shares nothing with Binade. It has its own Philox.
"""

import pathlib

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

SEED = 20251118
FLT_MAX = np.float32(np.finfo(np.float32).max)
np.seterr(all="ignore")  # overflow, 0 / 0 and NaN are part of what is recorded

FORMATS = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 448, 8),
    "e5m2": (ml_dtypes.float8_e5m2, 57344, 15),
    "e2m3": (ml_dtypes.float6_e2m3fn, 7.5, 2),
    "e3m2": (ml_dtypes.float6_e3m2fn, 28, 4),
    "e2m1": (ml_dtypes.float4_e2m1fn, 6, 2),
}


def f32(value):
    return np.asarray(value, dtype=np.float32)


def make_inputs():
    rng = np.random.Generator(np.random.PCG64(SEED))
    normal = lambda *shape: f32(rng.standard_normal(shape))
    cases = {
        "normal": normal(8, 64),
        "partial": normal(5, 39) * f32(3),
        "zero": np.zeros((3, 33), np.float32),
        "powers": f32(np.exp2(rng.integers(-20, 20, (6, 64)))),
        "denormal": normal(4, 64) * f32(2e-40),
        "huge": np.clip(normal(4, 64) * f32(2e38), -FLT_MAX, FLT_MAX),
        "limits": f32([[448] + [1] * 31, [449] + [1] * 31, [6] + [0.3] * 31, [7.5] + [0.3] * 31, [7] + [2.5] * 31]),
    }
    outlier = normal(4, 64)
    outlier[1, 40] = f32(3e4)
    cases["outlier"] = outlier
    for name, value in (("infinity", np.inf), ("nan", np.nan)):
        special = normal(4, 64)
        special[2, 21] = value
        cases[name] = special
    return {name: f32(x) for name, x in cases.items()}


def coded(values, name):
    """Codes, one per byte: nearest even, saturating."""
    dtype, largest, _ = FORMATS[name]
    return np.clip(f32(values), -f32(largest), f32(largest)).astype(dtype).view(np.uint8)


def groups_of(x, columns):
    for row in range(x.shape[0]):
        for left in range(0, x.shape[1], columns):
            yield row, left // columns, (row, slice(left, left + columns))


def mx_exponent(amax, rule, name):
    _, largest, emax = FORMATS[name]
    if amax == 0:
        return -127
    if rule == "floor":
        return np.frexp(np.float64(amax))[1] - 1 - emax
    if rule == "ceil":
        mantissa, exponent = np.frexp(np.float64(amax))
        return (exponent - 1 if mantissa == 0.5 else exponent) - emax
    # NVIDIA's: the exponent bits of f32, plus one if the mantissa is not 0.
    bits = int(f32(amax * f32(f32(1) / f32(largest))).view(np.uint32))
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    if mantissa > 0 and not (exponent == 0 and mantissa <= 0x400000):
        exponent += 1
    return exponent - 127


def mx(x, rule, name):
    codes = np.zeros(x.shape, np.uint8)
    scales = np.zeros((x.shape[0], -(-x.shape[1] // 32)), np.uint8)
    for i, j, at in groups_of(x, 32):
        amax = f32(np.max(np.abs(x[at])))
        if not np.isfinite(amax):
            scales[i, j] = 255
            continue
        exponent = max(-127, int(mx_exponent(amax, rule, name)))
        codes[at] = coded(np.ldexp(x[at].astype(np.float64), -exponent), name)
        scales[i, j] = exponent + 127
    return codes, scales


def nv_candidate(x, amax, scale, inverse, largest):
    stored = f32(min(f32(amax * f32(scale * f32(f32(1) / f32(largest)))), f32(448))).astype(ml_dtypes.float8_e4m3fn)
    step = f32(f32(stored) * inverse)
    factor = min(f32(f32(1) / step), FLT_MAX)
    codes = coded(x * factor, "e2m1")
    error = f32(0)
    for code, value in zip(codes.view(ml_dtypes.float4_e2m1fn), x):
        difference = f32(f32(f32(code) * step) - value)
        error = f32(error + f32(difference * difference))
    return codes, stored.view(np.uint8), error, factor


def nvfp4(x, four_over_six, draw=None):
    """Transformer Engine's formulas; 4/6 has 256 as the largest scale; `draw` rounds stochastically."""
    amax = f32(np.max(np.abs(x)))
    usable = np.isfinite(amax) and amax > 0
    largest = f32(6 * 256 if four_over_six else 6 * 448)
    scale = min(f32(largest / amax), FLT_MAX) if usable else f32(1)
    inverse = f32(f32(1) / scale)
    codes = np.zeros(x.shape, np.uint8)
    scales = np.zeros((x.shape[0], -(-x.shape[1] // 16)), np.uint8)
    for i, j, at in groups_of(x, 16):
        group = x[at]
        top = f32(np.max(np.abs(group)))
        if not np.isfinite(top):
            scales[i, j] = 0x7F
            continue
        best = nv_candidate(group, top, scale, inverse, 6)
        if four_over_six:
            wider = nv_candidate(group, top, scale, inverse, 4)
            if wider[2] < best[2]:
                best = wider
        codes[at], scales[i, j] = best[0], best[1]
        if draw is not None:
            first = i * x.shape[1] + j * 16
            codes[at] = [stochastic(f32(v * best[3]), draw(first + k)) for k, v in enumerate(group)]
    return codes, scales, f32([inverse])


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def drawn(seed, stream):
    def draw(index):
        block = index // 4
        words = philox((block & 0xFFFFFFFF, block >> 32, stream & 0xFFFFFFFF, stream >> 32),
                       (seed & 0xFFFFFFFF, seed >> 32))
        return words[index % 4]
    return draw


def stochastic(value, word):
    """The e2m1 code of a number: up if the dropped fraction plus word / 2^32 reaches 1."""
    grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    magnitude = min(abs(float(value)), 6.0)
    low = max(i for i in range(8) if grid[i] <= magnitude)
    if low < 7:
        fraction = int((magnitude - grid[low]) / (grid[low + 1] - grid[low]) * 2**32)
        low += (fraction + word) >> 32
    return low | (8 if np.signbit(value) else 0)


def hadamard(x, size, signs):
    """Runs of `size` columns times diag(signs) H / sqrt(size), rounded to bf16; others are rounded."""
    h = np.ones((1, 1))
    while h.shape[0] < size:
        h = np.block([[h, h], [h, -h]])
    sign = np.array([-1.0 if signs >> i & 1 else 1.0 for i in range(size)])
    y = x.astype(np.float64)
    for left in range(0, x.shape[1] - size + 1, size):
        y[:, left:left + size] = (y[:, left:left + size] * sign) @ h / np.sqrt(size)
    return f32(f32(y).astype(ml_dtypes.bfloat16))


def main():
    tensors = {}
    for name, x in make_inputs().items():
        tensors["in/" + name] = x
        for recipe, rule, fmt in (("mxfp8", "rceil", "e4m3"), ("mx_ceil", "ceil", "e2m1"), ("mx_up", "rceil", "e2m1"),
                                  ("mxfp6", "floor", "e2m3"), ("mxfp6_gradient", "floor", "e3m2"),
                                  ("mx_e5m2", "ceil", "e5m2")):
            codes, scales = mx(x, rule, fmt)
            tensors[f"{recipe}/{name}/codes"], tensors[f"{recipe}/{name}/scale"] = codes, scales
        for recipe, four_over_six, draw in (("four_over_six", True, None), ("stochastic", False, drawn(44, 1 << 40))):
            codes, scales, outer = nvfp4(x, four_over_six, draw)
            for what, value in (("codes", codes), ("scale", scales), ("outer", outer)):
                tensors[f"{recipe}/{name}/{what}"] = value
    rng = np.random.Generator(np.random.PCG64(SEED + 1))
    x = f32(rng.integers(-64, 65, (8, 70)) * 2.0**rng.integers(-3, 3, (8, 70)))  # whose sums are exact
    tensors["in/hadamard"] = x
    codes, scales, outer = nvfp4(hadamard(x, 16, 0xD7E8), False)
    for what, value in (("codes", codes), ("scale", scales), ("outer", outer)):
        tensors["hadamard/hadamard/" + what] = value
    path = pathlib.Path(__file__).with_name("recipes.safetensors")
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, path,
              {"oracle": f"numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}"})
    for key, value in load_file(path).items():
        assert np.array_equal(value.view(np.uint8), np.ascontiguousarray(tensors[key]).view(np.uint8)), key


main()
