#!/bin/sh
# The training steps that docs/benchmarks.md reports, in Binade and in PyTorch on one GPU:
#   bench/compare_gpu.sh path/to/binade [FOLDER for the JSON files] [NAME...]
# NAMEs choose among the comparisons below; default: all. Like for like: see compare_step.sh.
# PYTHON names the interpreter that has torch.
set -eu
binade=${1:?usage: compare_gpu.sh path/to/binade [FOLDER] [NAME...]}
results=${2:-$(mktemp -d)}
[ $# -ge 2 ] && shift
shift
here=$(dirname "$0")
gpt2="--layers 12 --width 768 --heads 12 --vocab 50304"
llama="--model llama --layers 24 --width 2048 --heads 16 --hidden 5632 --vocab 32000"
slice8b="--model llama --layers 8 --width 4096 --heads 32 --hidden 14336 --vocab 32000"

# compare NAME WARMUP OPTIONS: one table, if NAME is wanted. The warmup is of about six seconds, in which a GPU that
# has rested slows down to the rate that it sustains; it has the same number of steps on both sides.
wanted=" $* "
compare() {
  name=$1
  warmup=$2
  shift 2
  case $wanted in "  " | *" $name "*) ;; *) return 0 ;; esac
  echo "== $name"
  RESULTS=$results/$name TORCH_OPTIONS=${TORCH_OPTIONS:---mode compiled --attention default,cudnn} \
    "$here/compare_step.sh" "$binade" --device cuda --warmup "$warmup" --steps 20 "$@"
}
# shellcheck disable=SC2086 # options are words
{
  # Gradients in bf16, as in PyTorch's bf16 models; as many kept activations as leave 3/4 of its memory.
  export BINADE_OPTIONS="--gradients bf16 --activations keep=7,lean"
  compare gpt2-masters 60 $gpt2 --context 1024 --batch 64 --precision bf16 --params masters
  for context in 2048 4096 8192 16384; do
    compare gpt2-masters-$context 45 $gpt2 --context $context --batch $((65536 / context)) --precision bf16 --params masters
  done
  BINADE_OPTIONS=
  compare gpt2-autocast 60 $gpt2 --context 1024 --batch 64 --precision bf16,fp16 --params autocast
  for batch in 1 4 16; do
    (
      TORCH_OPTIONS=${TORCH_OPTIONS:---mode compiled,graphs --attention default}
      compare gpt2-masters-b$batch $((1000 / batch)) $gpt2 --context 1024 --batch $batch --precision bf16 --params masters
    )
  done
  split="--params split --gradients bf16"
  BINADE_OPTIONS="$split --activations keep=18,lean"
  compare llama-masters 25 $llama --context 2048 --batch 8 --precision bf16 --params masters
  head="--recipe delayed,head=true"
  hidden="--recipe delayed,head=true,hidden=true"
  # The last ones also store SwiGLU's input in FP8, and keep more of the rest instead.
  BINADE_OPTIONS="$split $head; $split $hidden --activations keep"
  compare llama-masters-fp8 35 $llama --context 2048 --batch 8 --precision fp8 --params masters
  BINADE_OPTIONS="$split --activations keep"
  compare slice8b-masters 16 $slice8b --context 4096 --batch 4 --precision bf16 --params masters
  BINADE_OPTIONS="$split $head; $split $hidden --activations keep"
  compare slice8b-masters-fp8 24 $slice8b --context 4096 --batch 4 --precision fp8 --params masters
  BINADE_OPTIONS=
  TORCH_OPTIONS="--mode eager"
  compare gpt2-tf32 30 $gpt2 --context 1024 --batch 32 --precision tf32
  compare gpt2-fp32 20 $gpt2 --context 1024 --batch 16 --precision fp32
}
