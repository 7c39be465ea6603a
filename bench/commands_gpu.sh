#!/bin/sh
# The commands around a training step on one GPU, as docs/benchmarks.md reports them:
#   bench/commands_gpu.sh path/to/binade
# shellcheck disable=SC2086 # options are words
set -eu
binade=${1:?usage: commands_gpu.sh path/to/binade}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# seconds COMMAND: wall-clock time, its output discarded.
seconds() {
  begin=$(date +%s.%N)
  "$@" > /dev/null
  awk -v begin="$begin" -v end="$(date +%s.%N)" 'BEGIN { printf "%.3f", end - begin }'
}
# run_seconds RUN STEP: the run's own clock after a step.
run_seconds() { sed -n "s/^{\"step\":$2,.*\"seconds\":\([0-9.]*\).*/\1/p" "$1/metrics.jsonl"; }
# rate TOKENS SECONDS SECONDS: tokens per second of the difference.
rate() { awk -v n="$1" -v a="$2" -v b="$3" 'BEGIN { printf "%.0f tokens/s\n", n / (b - a) }'; }

small="--model gpt2 --layers 6 --width 384 --heads 6 --context 256 --batch 64 --precision bf16 --device cuda
  --lr 1e-3 --eval-every 0 --checkpoint-every 0 --quiet"
for interval in 0 100 0 100 0 100; do
  rm -rf "$folder/run-$interval"
  "$binade" train $small --steps 1000 --sample 0 --layer-stats $interval --out "$folder/run-$interval"
  awk -v a="$(run_seconds "$folder/run-$interval" 10)" -v b="$(run_seconds "$folder/run-$interval" 990)" \
    -v interval=$interval 'BEGIN { printf "layer statistics every %d steps: %.3f ms per step\n", interval, (b - a) / 0.98 }'
done
# 300 tokens fill the context once, after which its last half is processed at once: the libraries that this needs are
# loaded in both runs of a difference, and from the disk before.
for precision in bf16 fp32; do
  generate="$binade generate $folder/run-100 --device cuda --precision $precision --tokens"
  first=$(seconds $generate 300)
  short=$(seconds $generate 300)
  printf "generate 300 tokens, 6 layers x 384, %s: %s s at first, then %s s; more: " $precision "$first" "$short"
  rate 2000 "$short" "$(seconds $generate 2300)"
done
for device in cpu cuda; do
  echo "eval on $device: $(seconds "$binade" eval "$folder/run-100" --device $device) s"
done
without=$(seconds "$binade" train $small --steps 20 --sample 0 --layer-stats 0 --out "$folder/plain")
with=$(seconds "$binade" train $small --steps 20 --sample 400 --layer-stats 0 --out "$folder/sampled")
printf "closing sample of 400 tokens: "
rate 400 "$without" "$with"
"$binade" train --preset llama-1.3b --vocab 256 --batch 1 --precision bf16 --params masters --moments bf16 --device cuda \
  --steps 1 --eval-every 0 --checkpoint-every 0 --sample 0 --layer-stats 0 --quiet --out "$folder/llama"
generate="$binade generate $folder/llama --device cuda --precision bf16 --tokens"
short=$(seconds $generate 20)
printf "generate, Llama 1.3B, bf16: "
rate 400 "$short" "$(seconds $generate 420)"

gpt2="--preset gpt2-124m --vocab 50304 --batch 64 --precision bf16 --params masters --device cuda"
# A GPU that has rested is faster for some seconds: the warmup is as long as in compare_gpu.sh.
"$binade" bench step $gpt2 --warmup 60 --steps 20
begin=$(date +%s.%N)
"$binade" train $gpt2 --data builtin --steps 300 --eval-every 100 --checkpoint-every 0 --log-every 1 --sample 0 --json \
  --out "$folder/gpt2" | while read -r line; do
  step=$(printf %s "$line" | sed -n 's/^{"step":\([0-9]*\),.*/\1/p')
  case $step in
    3) echo "third step after $(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }') s" ;;
    5) from=$(date +%s.%N) ;;
    300) printf "train with evaluation, steps 6 to 300: " && rate $((295 * 65536)) "$from" "$(date +%s.%N)" ;;
  esac
done
