"""Makes formats.txt: decode tables and encode cases as ml_dtypes and numpy have them.

Run in this folder: python formats.py
Lines, all numbers in hexadecimal bits:
  decode NAME VALUE...              the f32 value of codes 0, 1, 2, ... of an 8-bit format
  encode X F16 BF16 E4M3 E4M3FNUZ E5M2 E8M0   the code of the f32 X in each format, nearest even;
                                    "-" where this oracle does not apply
"""

import pathlib

import ml_dtypes
import numpy as np

FORMATS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2": ml_dtypes.float8_e5m2,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}
BOUNDARY_FORMATS = ["e4m3", "e4m3fnuz", "e5m2"]


def inputs():
    """Both sides of every rounding boundary of the FP8 formats, and random numbers of any exponent."""
    values = [np.array([0.0, np.inf, np.nan, 65504, 65519.996, 65520, 65536, 2.0**-24, 2.0**-25])]
    for name in BOUNDARY_FORMATS:
        finite = np.arange(128, dtype=np.uint8).view(FORMATS[name]).astype(np.float32)
        finite = np.unique(finite[np.isfinite(finite)])
        last_step = finite[-1] - finite[-2]
        finite = np.append(finite, finite[-1] + last_step)
        middles = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
        edge = np.concatenate([finite, middles])
        values += [edge, np.nextafter(edge, np.float32(np.inf)), np.nextafter(edge, np.float32(0))]
    rng = np.random.default_rng(20240229)
    random = rng.integers(0, 2**31, 800, dtype=np.uint32).view(np.float32)
    moderate = np.exp2(rng.uniform(-30, 18, 400))
    x = np.concatenate([v.astype(np.float32) for v in values + [random, moderate]])
    x = np.unique(x[~np.isnan(x)])
    signs = np.where(rng.integers(0, 2, x.size) == 0, 1, -1).astype(np.float32)
    return np.append(x * signs, np.float32(np.nan))


def codes(x, dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = x.astype(dtype)
    return narrow.view(np.uint8 if narrow.itemsize == 1 else np.uint16)


def main():
    lines = []
    for name, dtype in FORMATS.items():
        if np.dtype(dtype).itemsize == 1:
            values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
            lines.append(f"decode {name} " + " ".join(f"{v:x}" for v in values.view(np.uint32)))
    x = inputs()
    columns = {name: codes(x, dtype) for name, dtype in FORMATS.items()}
    for i, bits in enumerate(x.view(np.uint32)):
        row = [f"{columns[name][i]:x}" for name in FORMATS]
        # ml_dtypes takes zero for NaN, and does not round to nearest between its two smallest scales.
        if abs(x[i]) < 2.0**-126:
            row[list(FORMATS).index("e8m0")] = "-"
        lines.append(f"encode {bits:x} " + " ".join(row))
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
