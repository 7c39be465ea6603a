#!/usr/bin/env python3
"""The products of `binade bench gemm` in PyTorch, measured the same way: GFLOP/s of the best call.

  torch_gemm.py [--threads N] [--seconds X]

y = x w^T as a layer's forward has it, fp32 and bf16 in turns for X seconds a shape, on the CPU.
"""
import argparse
import time

import torch
import torch.nn.functional as F

SHAPES = [(2048, 2048, 2048), (2048, 256, 256), (2048, 768, 256), (2048, 1024, 256), (2048, 256, 1024),
          (2048, 768, 768), (2048, 2304, 768), (2048, 3072, 768), (2048, 768, 3072), (256, 1024, 2048),
          (768, 768, 2048), (768, 3072, 2048)]


def best_times(shape, seconds):
    m, n, k = shape
    operands = [(torch.rand(m, k, dtype=t), torch.rand(n, k, dtype=t)) for t in (torch.float32, torch.bfloat16)]
    best = [float("inf")] * len(operands)
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for i, (x, w) in enumerate(operands):
            start = time.perf_counter()
            F.linear(x, w)
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"PyTorch {torch.__version__}, {options.threads} threads, GFLOP/s\n    m     n     k      fp32      bf16")
    with torch.inference_mode():
        for shape in SHAPES:
            work = 2e-9 * shape[0] * shape[1] * shape[2]
            rates = "".join(f"{work / t:10.1f}" for t in best_times(shape, options.seconds))
            print("{:5d} {:5d} {:5d}".format(*shape) + rates)


if __name__ == "__main__":
    main()
