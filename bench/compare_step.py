#!/usr/bin/env python3
"""The table of compare_step.sh, from the JSON files in a folder.

Utilization is model FLOP utilization: 6 operations per weight of a matmul and 6 x layers x width x context
for causal attention, per token, over the data sheet's dense rate in 16 bits (for fp8: in FP8).
"""
import json
import os
import sys
from pathlib import Path

# Dense TFLOP/s in 16 bits and FP8 by the makers' data sheets.
PEAKS = {"H100 PCIe": (756, 1513), "H100": (989.4, 1978.9), "H200": (989.4, 1978.9), "A100": (312, None)}


def load(folder, name):
    path = Path(folder) / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def utilization(binade, result):
    for name, (half, fp8) in PEAKS.items():
        if name in binade["device"]:
            peak = fp8 if result["precision"] == "fp8" else half
            if peak and result["precision"] in ("bf16", "fp16", "fp8"):
                return f"{result['tokens_per_second'] * binade['flops_per_token'] / peak / 1e10:.1f}%"
    return "-"


def mib(result, key="peak_bytes"):
    return f"{result[key] / 2**20:,.0f}" if key in result else "-"


def row(label, result, torch, binade):
    ratio = result["tokens_per_second"] / torch["tokens_per_second"]
    memory = f"{result['peak_bytes'] / torch['peak_bytes']:.2f}x" if "peak_bytes" in torch else "-"
    print(f"{label:<52} {result['tokens_per_second']:>12,.0f} {ratio:>7.2f}x {utilization(binade, result):>12} "
          f"{mib(result):>12} {memory:>7} {mib(result, 'peak_reserved_bytes'):>13} "
          f"{result['first_step_since_model_s']:>13.1f}")


def main():
    folder = sys.argv[1]
    binade, any_order, torch = (load(folder, name) for name in ("binade", "binade_any_order", "torch"))
    others = [(any_order, "non-deterministic")]
    for i, options in enumerate(os.environ.get("BINADE_OPTIONS", "").split(";")):
        others.append((load(folder, f"binade_options_{i}"), options.strip()))
    print(f"Binade: {binade['device']}; PyTorch {torch['torch']}: {torch['device']}; {binade['model']} "
          f"{binade['layers']} x {binade['width']}, batch {binade['batch']} x {binade['context']}, "
          f"--params {binade['params']}")
    print(f"{'':<52} {'tokens/s':>12} {'ratio':>8} {'utilization':>12} {'memory, MiB':>12} {'ratio':>7} "
          f"{'reserved, MiB':>13} {'first step, s':>13}")
    for result in binade["results"]:
        peers = [r for r in torch["results"] if r["precision"] == result["precision"]]
        if not peers:
            continue
        best = max(peers, key=lambda r: r["tokens_per_second"])
        row(f"{result['precision']} PyTorch {best['mode']} {best['attention']}", best, best, binade)
        row(f"{result['precision']} Binade", result, best, binade)
        for run, label in others:
            for other in run["results"] if run else []:
                if other["precision"] == result["precision"]:
                    row(f"{result['precision']} Binade, {label}", other, best, binade)


if __name__ == "__main__":
    main()
