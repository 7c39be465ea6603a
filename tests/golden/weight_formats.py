"""Makes weight_formats.txt: weights as the compressed-tensors package codes them, bit for bit.

Needs torch and compressed-tensors; the numbers are those of torch 2.7.1 and compressed-tensors 0.20.0 on x86-64. Each line has
a kind, names, and bytes in hexadecimal (little-endian):

    values CASE ROWS COLUMNS F32...
    coded CASE FORMAT CODES SCALES [GLOBAL]

CODES are one byte each, unsigned: int4 with 8 added, e2m1 and e4m3 as their bits. SCALES are f32, and so is GLOBAL, the scale
of the tensor. Zeros keep their sign in e2m1 and e4m3 only if the package's do. The tests compare zeros by value.
"""

import pathlib

import numpy as np
import torch
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8, quantize_and_pack_fp4
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import quantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

HERE = pathlib.Path(__file__).resolve().parent
INT4 = QuantizationArgs(num_bits=4, type="int", symmetric=True, strategy="group", group_size=128)
NVFP4 = QuantizationArgs(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16,
                         scale_dtype=torch.float8_e4m3fn)
FP8 = QuantizationArgs(num_bits=8, type="float", symmetric=True, strategy="block", block_structure=[128, 128])


def cases():
    rng = np.random.Generator(np.random.PCG64(20261118))
    normal = lambda rows, columns: rng.standard_normal((rows, columns)).astype(np.float32)
    yield "normal", normal(3, 256)
    yield "weight", normal(2, 384) * np.float32(0.02)
    # Groups of very different sizes, so that scales of groups become subnormal and zero.
    spread = normal(2, 256)
    spread *= np.float32(2.0) ** rng.integers(-24, 4, (2, 16)).repeat(16, axis=1).astype(np.float32)
    yield "spread", spread
    zero = np.zeros((2, 256), np.float32)
    yield "zero", zero
    one = zero.copy()
    one[1, 37] = -2.5
    yield "one_value", one
    # Ties of each format: multiples of a quarter up to the largest magnitude.
    ties = np.tile(np.float32([7.5, -7.5, 6, 5, 3.5, 2.5, 1.75, 1.25, .75, .25, -.25, -.75, -5, -6, -2.5, -3.5]), (2, 8))
    yield "ties", ties
    yield "tiny", normal(1, 128) * np.float32(1e-38)
    yield "huge", normal(1, 128) * np.float32(1e37)
    # More rows than one block has, which the last ones do not fill.
    yield "tall", normal(130, 128) * np.float32(0.05)


def group_extremes(weight, size):
    groups = weight.reshape(weight.shape[0], -1, size)
    return groups.amin(-1), groups.amax(-1)


def int4(weight):
    low, high = group_extremes(weight, 128)
    scale, zero = calculate_qparams(low, high, INT4.model_copy(update={"scale_dtype": torch.bfloat16}))
    scale = scale.to(torch.bfloat16).to(torch.float32)
    codes = quantize(weight, scale, None, INT4, dtype=torch.int8)
    return (codes.to(torch.int16) + 8).to(torch.uint8), scale, None


def nvfp4(weight):
    total = generate_gparam(weight.amin(), weight.amax())
    low, high = group_extremes(weight, 16)
    scale, _ = calculate_qparams(low, high, NVFP4, global_scale=total)
    scale = scale.to(torch.float8_e4m3fn).to(torch.float32)
    packed = quantize_and_pack_fp4(weight, scale, global_scale=total, zero_point=None, group_size=16)
    codes = torch.stack([packed & 15, packed >> 4], -1).reshape(weight.shape)
    return codes, scale, total


def fp8(weight):
    rows, columns = weight.shape
    scales = torch.empty(-(-rows // 128), columns // 128)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            block = weight[i * 128:(i + 1) * 128, j * 128:(j + 1) * 128]
            scales[i, j] = calculate_qparams(block.amin(), block.amax(), FP8)[0]
    codes = quantize(weight, scales, None, FP8, dtype=torch.float8_e4m3fn)
    return codes.view(torch.uint8), scales, None


def hexadecimal(tensor):
    return np.ascontiguousarray(tensor.numpy()).tobytes().hex()


def main():
    with open(HERE / "weight_formats.txt", "w") as out:
        for case, values in cases():
            weight = torch.from_numpy(values)
            print("values", case, *values.shape, hexadecimal(weight), file=out)
            for name, code in (("int4-g128", int4), ("nvfp4", nvfp4), ("fp8-block", fp8)):
                if case == "tall" and name != "fp8-block":
                    continue
                codes, scales, total = code(weight)
                extra = [] if total is None else [hexadecimal(total)]
                print("coded", case, name, hexadecimal(codes), hexadecimal(scales), *extra, file=out)


main()
