"""Makes nf4.txt: weights in NF4 by formulas that share nothing with the program's.

Needs numpy alone. The levels are those of the QLoRA paper's definition (quantiles of the normal distribution as bitsandbytes'
create_normal_map takes them), in f64; a code is the level at the least distance, found by searching all. Each line has a kind
and numbers, bytes in hexadecimal (little-endian):

    levels F64...
    weight CASE ROWS COLUMNS F32... CODES ABSMAX VALUES

CODES are one byte each; ABSMAX one f32 per 64 elements; VALUES f32.
"""

import pathlib
import statistics

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
OFFSET = 0.9677083  # the probability of the outermost level


def levels():
    quantile = statistics.NormalDist().inv_cdf
    above = [quantile(p) for p in np.linspace(OFFSET, 0.5, 9)[:-1]]
    below = [-quantile(p) for p in np.linspace(OFFSET, 0.5, 8)[:-1]]
    values = np.sort(np.array(above + [0.0] + below))
    return values / values.max()


# As bitsandbytes has them: the definition in f32 arithmetic, so the last digits are its own.
STORED = np.float32([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                     -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                     0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                     0.7229568362236023, 1.0])


def code(weight):
    blocks = weight.reshape(-1, 64)
    absmax = np.abs(blocks).max(1, keepdims=True)
    scaled = np.divide(blocks, absmax, out=np.zeros_like(blocks), where=absmax > 0)
    distance = np.abs(scaled[..., None].astype(np.float64) - STORED.astype(np.float64))
    codes = distance.argmin(-1).astype(np.uint8)  # the first, so the lower one, of two
    return codes, absmax, STORED[codes] * absmax


def cases():
    rng = np.random.Generator(np.random.PCG64(4711))
    yield "normal", rng.standard_normal((3, 128)).astype(np.float32)
    yield "weight", (rng.standard_normal((5, 64)) * 0.02).astype(np.float32)
    spread = rng.standard_normal((2, 192)).astype(np.float32)
    spread *= np.float32(2) ** rng.integers(-40, 20, (2, 3)).repeat(64, axis=1).astype(np.float32)
    yield "spread", spread
    zero = np.zeros((2, 64), np.float32)
    zero[1, 63] = -2.5
    yield "zero", zero
    yield "tiny", (rng.standard_normal((1, 64)) * 1e-39).astype(np.float32)


def main():
    text = "levels " + np.float64(levels()).tobytes().hex() + "\n"
    assert np.abs(levels() - STORED).max() < 5e-7
    for name, weight in cases():
        codes, absmax, values = code(weight)
        parts = [weight.tobytes().hex(), codes.tobytes().hex(), absmax.tobytes().hex(), values.tobytes().hex()]
        text += f"weight {name} {weight.shape[0]} {weight.shape[1]} {' '.join(parts)}\n"
    (HERE / "nf4.txt").write_text(text)


main()
