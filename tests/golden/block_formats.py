"""Makes block_formats.txt: blocks of GGUF's formats as the gguf package and llama.cpp code and decode them.

Needs the packages gguf and xllamacpp, whose library is llama.cpp; this file calls that library's quantizers by ctypes.
The numbers are those of gguf 0.19.0 and xllamacpp 2026.10.11549 on x86-64. Each line of the file has a kind, names, and
bytes in hexadecimal (little-endian):

    values CASE F32...            256 values
    codes CASE FORMAT BYTES       as the reference quantizer codes them
    decoded FORMAT BYTES F32...   random blocks and their values

Where both packages have a quantizer, they have to agree. Cases that a reference quantizer leaves undefined in C (infinite
and NaN values, scales beyond f16, inverse scales beyond f32) are not here.
"""

import ctypes
import glob
import pathlib

import gguf
import numpy as np
import xllamacpp
from gguf import GGMLQuantizationType as Type

HERE = pathlib.Path(__file__).resolve().parent
LLAMA = ctypes.CDLL(glob.glob(str(pathlib.Path(xllamacpp.__file__).parent / "*.so"))[0])
WRITTEN = {"q4_0": Type.Q4_0, "q8_0": Type.Q8_0, "mxfp4": Type.MXFP4, "q4_k": Type.Q4_K, "q6_k": Type.Q6_K}
READ = WRITTEN | {"q4_1": Type.Q4_1, "q5_0": Type.Q5_0, "q5_1": Type.Q5_1, "q5_k": Type.Q5_K}
IN_GGUF = ("q4_0", "q8_0", "mxfp4")


def f32(value):
    return np.asarray(value, dtype=np.float32)


def cases():
    rng = np.random.Generator(np.random.PCG64(20261118))
    normal = lambda: f32(rng.standard_normal(256))
    yield "normal", normal()
    for i in range(6):
        yield f"weight{i}", normal() * f32(0.02)
    yield "shifted", normal() * f32(0.1) + f32(3)  # minimums above 0
    yield "negative", -np.abs(normal()) - f32(1)
    yield "zero", np.zeros(256, np.float32)
    yield "minus_zero", np.full(256, -0.0, np.float32)
    yield "constant", np.full(256, 0.37, np.float32)
    one = np.zeros(256, np.float32)
    one[37] = -2.5
    yield "one_value", one
    huge = normal() * f32(1e-3)
    huge[[3, 100]] = 3e4, -6e4
    yield "huge_value", huge
    yield "subnormal_scale", normal() * f32(2e-6)
    yield "tiny_scale", normal() * f32(1e-9)  # f16 holds the scale as 0
    yield "tiny_values", normal() * f32(1e-20)
    # All multiples of a half: ties of every rounding.
    yield "ties", f32(np.arange(-128, 128)) / f32(2)
    yield "ties_of_e2m1", np.tile(f32([6, 5, 3.5, 2.5, 1.75, 1.25, 0.75, 0.25, 0.250001, 4.999999, 0, -0.0, -5, -0.25, -6,
                                       1, -3.5, -2.5, -1.75, -1.25, -0.75, 7.9, -7.9, 7.999999, 0.5, 2, 3, 4, -2, -3, -4,
                                       -1]), 8)
    yield "equal_extremes", np.tile(f32([1, -1, 0.5, 0.25, -0.75, 0.125, 0.3, -0.3]), 32)
    yield "minus_first", np.tile(f32([-1, 1, 0.5, 0.25, -0.75, 0.125, 0.3, -0.3]), 32)
    spread = normal() * f32(10.0 ** rng.uniform(-4, 3, 256))
    yield "spread", spread
    yield "blocks", normal() * np.repeat(f32(10.0 ** np.linspace(-6, 2, 16)), 16)
    yield "binades", np.tile(f32(2.0 ** np.arange(-16, 16)), 8)
    yield "below_power", np.tile(np.nextafter(f32(2.0 ** np.arange(-16, 16)), f32(0)), 8)


def llama_codes(name, values):
    codes = np.zeros(256 // gguf.GGML_QUANT_SIZES[WRITTEN[name]][0] * gguf.GGML_QUANT_SIZES[WRITTEN[name]][1], np.uint8)
    function = getattr(LLAMA, f"quantize_row_{name.replace('_k', '_K')}_ref")
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function(values.ctypes.data, codes.ctypes.data, 256)
    return codes


def main():
    lines, seen = [], []
    np.seterr(all="ignore")
    for case, values in cases():
        values = np.ascontiguousarray(values)
        lines.append(f"values {case} {values.tobytes().hex()}")
        for name, kind in WRITTEN.items():
            codes = llama_codes(name, values)
            if name in IN_GGUF:
                other = gguf.quants.quantize(values, kind)
                # llama.cpp takes the extreme of a block of negative zeros as a positive one.
                assert np.array_equal(codes, other) or (case, name) == ("minus_zero", "q4_0"), (case, name)
            lines.append(f"codes {case} {name} {codes.tobytes().hex()}")
    rng = np.random.Generator(np.random.PCG64(7))
    for name, kind in READ.items():
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        for _ in range(2):
            block = rng.integers(0, 256, size, dtype=np.uint8)
            scales = {"mxfp4": [], "q6_k": [208], "q4_k": [0, 2], "q5_k": [0, 2], "q4_1": [0, 2], "q5_1": [0, 2]}
            for at in scales.get(name, [0]):  # finite ones
                block[at:at + 2] = np.frombuffer(np.float16(rng.standard_normal()).tobytes(), np.uint8)
            values = f32(gguf.quants.dequantize(block, kind))
            lines.append(f"decoded {name} {block.tobytes().hex()} {values.tobytes().hex()}")
    (HERE / "block_formats.txt").write_text("\n".join(lines) + "\n")
    print(f"block_formats.txt: {len(lines)} lines")


main()
