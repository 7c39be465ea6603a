#!/bin/sh
# Training steps of the same model in Binade and in PyTorch, one after the other, and their ratio.
#   bench/compare_step.sh BINADE [options of both: --device cuda --layers 12 --threads 1 --cpu-time ...]
# PYTHON names the interpreter that has torch (python3), MODES the ways PyTorch runs
# (eager,compiled), BINADE_OPTIONS what Binade alone is told, and RESULTS a folder for the two JSON
# files.
set -eu
binade=${1:?usage: compare_step.sh path/to/binade [options]}
shift
folder=$(dirname "$0")
results=${RESULTS:-$(mktemp -d)}
mkdir -p "$results"
# shellcheck disable=SC2086 # options are words
"$binade" bench step --json ${BINADE_OPTIONS:-} "$@" >"$results/binade.json"
"${PYTHON:-python3}" "$folder/torch_step.py" --mode "${MODES:-eager,compiled}" "$@" >"$results/torch.json"
"${PYTHON:-python3}" - "$results" <<'END'
import json, sys

binade, torch = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("binade", "torch"))
print(f"Binade: {binade['device']}; PyTorch {torch['torch']}: {torch['device']}")
print(f"{'precision':<10} {'Binade':>10} {'PyTorch':>10} {'its mode':>9} {'ratio':>6} {'memory, MiB':>19} {'first step, s':>14}"
      "   tokens/s of the median step")
for ours in binade["results"]:
    theirs = [r for r in torch["results"] if r["precision"] == ours["precision"]]
    if theirs:
        best = max(theirs, key=lambda r: r["tokens_per_second"])
        x, y = ours["tokens_per_second"], best["tokens_per_second"]
        memory = f"{ours['peak_bytes'] / 2**20:.0f} / {best['peak_bytes'] / 2**20:.0f}" if "peak_bytes" in best else "-"
        first = f"{ours['first_step_since_model_s']:.1f} / {best['first_step_since_model_s']:.1f}"
        print(f"{ours['precision']:<10} {x:>10.0f} {y:>10.0f} {best['mode']:>9} {x / y:>5.2f}x {memory:>19} {first:>14}")
END
