"""Makes formats_by_bits.txt: small formats as ml_dtypes has them, under Binade's names.

Run in this folder: python formats_by_bits.py
Lines, all numbers in hexadecimal bits:
  decode NAME VALUE...   the f32 value of codes 0, 1, 2, ...
  encode NAME X CODE ... f32 numbers and their codes, nearest even, in pairs: both sides of every
                         boundary of rounding, one sign after the other
"""

import pathlib

import ml_dtypes
import numpy as np

FORMATS = {
    "e2m1": (ml_dtypes.float4_e2m1fn, 4),
    "e2m3": (ml_dtypes.float6_e2m3fn, 6),
    "e3m2": (ml_dtypes.float6_e3m2fn, 6),
    "e3m4": (ml_dtypes.float8_e3m4, 8),
    "e4m3ieee": (ml_dtypes.float8_e4m3, 8),
    "e4m3b11fnuz": (ml_dtypes.float8_e4m3b11fnuz, 8),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 8),
}


def inputs(finite):
    """Each number, each midpoint and the first number that would be too large, with neighbors."""
    finite = np.append(finite, 2 * finite[-1] - finite[-2])
    middles = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    edge = np.concatenate([finite, middles])
    below, above = np.nextafter(edge, np.float32(0)), np.nextafter(edge, np.float32(np.inf))
    x = np.unique(np.concatenate([edge, below, above, [np.float32(np.inf)]]))
    return np.concatenate([x, -x]).astype(np.float32)


def main():
    lines = []
    for name, (dtype, bits) in FORMATS.items():
        values = np.arange(1 << bits, dtype=np.uint8).view(dtype).astype(np.float32)
        lines.append(f"decode {name} " + " ".join(f"{v:x}" for v in values.view(np.uint32)))
        finite = values[: 1 << (bits - 1)]
        x = inputs(np.unique(finite[np.isfinite(finite)]))
        with np.errstate(over="ignore", invalid="ignore"):
            codes = x.astype(dtype).view(np.uint8) & ((1 << bits) - 1)
        lines.append(f"encode {name} " + " ".join(f"{a:x} {b:x}" for a, b in zip(x.view(np.uint32), codes)))
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
