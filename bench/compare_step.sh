#!/bin/sh
# Training steps of the same model in Binade and in PyTorch, one after the other, and their ratio.
#   bench/compare_step.sh BINADE [options of both: --device cuda --layers 12 --threads 1 --cpu-time ...]
# PYTHON names the interpreter that has torch (python3), MODES the ways PyTorch runs
# (eager,compiled), and RESULTS a folder for the two JSON files.
set -eu
binade=${1:?usage: compare_step.sh path/to/binade [options]}
shift
folder=$(dirname "$0")
results=${RESULTS:-$(mktemp -d)}
mkdir -p "$results"
"$binade" bench step --json "$@" >"$results/binade.json"
"${PYTHON:-python3}" "$folder/torch_step.py" --mode "${MODES:-eager,compiled}" "$@" >"$results/torch.json"
"${PYTHON:-python3}" - "$results" <<'END'
import json, sys

binade, torch = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("binade", "torch"))
print(f"Binade: {binade['device']}; PyTorch {torch['torch']}: {torch['device']}")
print(f"{'precision':<10} {'Binade':>12} {'PyTorch':>12} {'its mode':>9} {'ratio':>7}   tokens/s, best step")
for ours in binade["results"]:
    theirs = [r for r in torch["results"] if r["precision"] == ours["precision"]]
    if theirs:
        best = max(theirs, key=lambda r: r["best_tokens_per_second"])
        x, y = ours["best_tokens_per_second"], best["best_tokens_per_second"]
        print(f"{ours['precision']:<10} {x:>12.0f} {y:>12.0f} {best['mode']:>9} {x / y:>6.2f}x")
END
