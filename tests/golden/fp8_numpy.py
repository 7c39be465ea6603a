"""Makes fp8.safetensors: FP8 recipes over a 30-step run, in numpy and ml_dtypes alone.

README.md defines each recipe; this file follows it line by line and shares nothing with Binade.
"""

import ml_dtypes
import numpy as np
import torch

from golden_common import save

SEED = 20240607
STEPS, ROWS, K = 30, 3, 140
WEIGHT_ROWS = 5
BIG_WEIGHT = (133, 150)
FLT_MAX = np.float32(np.finfo(np.float32).max)
FORMATS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
# The streams of a run: name -> (input tensor, format). "g_e4m3" is the E4M3-only variant.
STREAMS = {"x": ("x", "e4m3"), "w": ("w", "e4m3"), "g": ("g", "e5m2"), "g_e4m3": ("g", "e4m3")}

np.seterr(all="ignore")  # overflow, 0 / 0 and NaN are part of what is recorded


def f32(value):
    return np.asarray(value, dtype=np.float32)


def top(kind):
    """The largest finite value of a format."""
    return f32(ml_dtypes.finfo(FORMATS[kind]).max)


def cast(values, scale, kind):
    """values * scale as FP8 bytes: nearest-even, finite overflow to the largest value.

    Infinite values stay so where the format has infinities and become NaN elsewhere.
    """
    clipped = np.clip(f32(values * scale), -top(kind), top(kind))  # NaN passes
    return np.where(np.isinf(values), f32(values), clipped).astype(FORMATS[kind]).view(np.uint8)


def largest(values, axis=None):
    return f32(np.max(np.abs(values), axis=axis))


# --- inputs ----------------------------------------------------------------------------------


def make_inputs():
    rng = np.random.Generator(np.random.PCG64(SEED))
    drift = 1 + 0.2 * np.arange(STEPS).reshape(-1, 1, 1)
    x = f32(rng.standard_normal((STEPS, ROWS, K)) * drift)
    g = f32(rng.standard_normal((STEPS, ROWS, K)) * 1e-4 / drift)
    w = f32(rng.standard_normal((1, WEIGHT_ROWS, K)) * 0.05)
    w = f32(w + np.cumsum(rng.standard_normal((STEPS, WEIGHT_ROWS, K)) * 1e-3, axis=0))
    x[5], g[6] = 0, 0
    x[8, 1, 17], g[9, 2, 131] = np.inf, -np.inf
    x[11, 0, 3], g[12, 1, 99] = np.nan, np.nan
    x[10, 2, 64] *= f32(1e4)  # outliers that a history of 16 forgets before the end
    g[7, 0, 5] *= f32(1e6)
    x[17] *= f32(1e-38)  # max / amax overflows
    g[18] *= f32(1e-33)
    x[20] = np.clip(x[20], -1, 1)  # amax a power of two
    x[22, 1] = 0  # one row of zeros, and a block of zeros in another
    x[22, 2, :32] = 0
    big = f32(rng.standard_normal(BIG_WEIGHT) * 0.02)
    big[:128, 128:] *= f32(50)
    big[128:, :128] = 0
    return {"x": x, "w": w, "g": g, "big_w": big}


# --- delayed scaling -------------------------------------------------------------------------


def delayed_scale(history, algorithm, old, kind, margin):
    amax = history.max() if algorithm == "max" else history[0]
    if amax == 0:
        return old
    scale = f32(f32(top(kind) / amax) / f32(2.0**margin))
    return FLT_MAX if np.isinf(scale) else scale


def delayed(steps, kind, length, algorithm, margin):
    scale, history, dropped = f32(1), np.zeros(length, np.float32), 0
    out = {"scale": [], "scale_inv": [], "amax": [], "recorded": [], "dropped": [], "data": []}
    for values in steps:
        amax = largest(values)
        recorded = amax if np.isfinite(amax) else f32(0)
        dropped += not np.isfinite(amax)
        out["scale"].append(scale)
        out["scale_inv"].append(f32(f32(1) / scale))
        out["data"].append(cast(values, scale, kind))
        out["amax"].append(amax)
        out["recorded"].append(recorded)
        out["dropped"].append(np.int64(dropped))
        history = np.roll(history, 1)
        history[0] = recorded
        scale = delayed_scale(history, algorithm, scale, kind, margin)
    out = {name: np.stack(column) for name, column in out.items()}
    return out | {"next_scale": scale, "history": history[: min(length, 32)]}


# --- scales from the tensor at hand ----------------------------------------------------------


def current_scale(amax, kind, power_of_two, eps):
    """Elementwise over an array of amaxes."""
    scale = f32(top(kind) / np.maximum(amax, f32(eps)))
    scale = np.where(np.isinf(scale), FLT_MAX, scale)
    scale = np.where((amax == 0) | ~np.isfinite(amax), f32(1), scale)
    if power_of_two:  # toward zero: keep sign and exponent
        scale = (scale.view(np.uint32) & np.uint32(0xFF800000)).view(np.float32)
    return f32(scale)


def blocked(values, rows, columns, kind, power_of_two, eps=0.0):
    """One scale per block of rows x columns of the last two dimensions; edges are smaller."""
    height, width = values.shape[-2:]
    rows, columns = min(rows, height), min(columns, width)
    grid = (-(-height // rows), -(-width // columns))
    amax = np.zeros(values.shape[:-2] + grid, np.float32)
    for i in range(grid[0]):
        for j in range(grid[1]):
            block = values[..., i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            amax[..., i, j] = largest(block, axis=(-2, -1))
    scale = current_scale(amax, kind, power_of_two, eps)
    spread = scale.repeat(rows, axis=-2)[..., :height, :].repeat(columns, axis=-1)[..., :width]
    data = cast(values, spread, kind)
    return {"scale": scale, "scale_inv": f32(f32(1) / scale), "data": data}


def mxfp8(values, kind):
    """OCP MX: 32 elements along the last dimension share the scale 2^(floor(log2 amax) - emax)."""
    emax = int(np.floor(np.log2(top(kind))))
    width = values.shape[-1]
    groups = -(-width // 32)
    padding = [(0, 0)] * (values.ndim - 1) + [(0, groups * 32 - width)]
    grouped = np.pad(values, padding).reshape(values.shape[:-1] + (groups, 32))
    amax = largest(grouped, axis=-1)
    _, exponent = np.frexp(amax.astype(np.float64))  # amax = m 2^exponent with m in [0.5, 1)
    shared = np.clip(exponent - 1 - emax, -127, 127)
    shared = np.where(amax == 0, -127, shared)
    code = np.where(np.isfinite(amax), shared + 127, 255).astype(np.uint8)
    inverse = np.where(np.isfinite(amax), np.ldexp(1.0, -shared), np.nan).astype(np.float32)
    data = cast(grouped * inverse[..., None], f32(1), kind)
    return {"scale": code, "data": data.reshape(*values.shape[:-1], -1)[..., :width].copy()}


# --- the file --------------------------------------------------------------------------------


def delayed_cases(inputs):
    for length in (16, 1024):
        for algorithm in ("max", "most_recent"):
            for margin in (0, 1):
                name = f"delayed_{length}_{algorithm}_margin{margin}"
                params = {"history": length, "algorithm": algorithm, "margin": margin}
                for stream, (source, kind) in STREAMS.items():
                    out = delayed(inputs[source], kind, length, algorithm, margin)
                    yield name, params, stream, out


def block_cases(inputs):
    """Recipes without state: name -> rows and columns of a block, power-of-two scales, eps."""
    whole = 1 << 20
    recipes = {
        "current": (whole, whole, False, 0.0),
        "current_pow2": (whole, whole, True, 0.0),
        "current_eps": (whole, whole, False, 1e-3),
        "row": (1, whole, False, 0.0),
        "row_pow2": (1, whole, True, 0.0),
    }
    for name, (rows, columns, power_of_two, eps) in recipes.items():
        params = {"power_of_two": power_of_two, "eps": eps}
        for stream, (source, kind) in STREAMS.items():
            out = blocked(inputs[source], rows, columns, kind, power_of_two, eps)
            yield name, params, stream, out
    for stream, source in {"x": "x", "g_e4m3": "g"}.items():
        yield "block_1x128", {}, stream, blocked(inputs[source], 1, 128, "e4m3", True)
    yield "block_128x128", {}, "big_w", blocked(inputs["big_w"], 128, 128, "e4m3", True)
    for stream, (source, kind) in (STREAMS | {"big_w": ("big_w", "e4m3")}).items():
        yield "mxfp8", {}, stream, mxfp8(inputs[source], kind)


def main():
    inputs = make_inputs()
    tensors = {f"in/{name}": torch.from_numpy(value) for name, value in inputs.items()}
    recipes = {}
    for cases in (delayed_cases(inputs), block_cases(inputs)):
        for recipe, params, stream, out in cases:
            recipes[recipe] = params
            for name, value in out.items():
                tensors[f"{recipe}/{stream}/{name}"] = torch.from_numpy(np.asarray(value).copy())
    formats = {stream: kind for stream, (_, kind) in STREAMS.items()} | {"big_w": "e4m3"}
    oracle = f"numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}"
    save("fp8.safetensors", tensors, {"recipes": recipes, "formats": formats, "oracle": oracle})


if __name__ == "__main__":
    main()
