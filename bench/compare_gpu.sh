#!/bin/sh
# The training steps that docs/benchmarks.md reports, in Binade and in PyTorch on one GPU:
#   bench/compare_gpu.sh path/to/binade [FOLDER for the JSON files]
# PYTHON names the interpreter that has torch. PyTorch runs compiled in 16 and 8 bits, eager in 32.
set -eu
binade=${1:?usage: compare_gpu.sh path/to/binade [FOLDER]}
results=${2:-$(mktemp -d)}
here=$(dirname "$0")
gpt2="--layers 12 --width 768 --heads 12 --vocab 50304 --context 1024"
llama="--model llama --layers 24 --width 2048 --heads 16 --hidden 5632 --vocab 32000 --context 2048"

# compare NAME MODE PARAMETERS OPTIONS: one table. In 16 bits Binade keeps f32 masters in its
# optimizer; PyTorch keeps f32 parameters and casts them.
compare() {
  name=$1 mode=$2 parameters=$3
  shift 3
  echo "== $name"
  BINADE_OPTIONS="--params $parameters" RESULTS=$results/$name MODES=$mode \
    "$here/compare_step.sh" "$binade" --device cuda --warmup 5 "$@"
}
# shellcheck disable=SC2086 # options are words
{
  compare gpt2-124m-b64 compiled masters $gpt2 --batch 64 --steps 20 --precision bf16,fp16
  compare gpt2-124m-b32 eager autocast $gpt2 --batch 32 --steps 10 --precision tf32
  compare gpt2-124m-b16 eager autocast $gpt2 --batch 16 --steps 10 --precision fp32
  compare llama-1.3b-b8 compiled masters $llama --batch 8 --steps 15 --precision bf16,fp8
}
