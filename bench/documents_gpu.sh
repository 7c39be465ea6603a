#!/bin/sh
# Packed documents and sliding windows on one GPU, as docs/benchmarks.md reports them:
#   bench/documents_gpu.sh path/to/binade
# PYTHON names the interpreter that has torch.
# shellcheck disable=SC2086 # options are words
set -eu
binade=${1:?usage: documents_gpu.sh path/to/binade}
python=${PYTHON:-python3}
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Conversations of up to 1000 bytes, a token each, 286 on average.
"$python" - "$folder/chat.jsonl" << 'END'
import json, random, sys
random.seed(1)
words = ["".join(random.choices("abcdefghijklmnop", k=random.randint(2, 9))) + " " for _ in range(3000)]
with open(sys.argv[1], "w") as file:
    for _ in range(20000):
        size = min(int(random.lognormvariate(5.3, 0.8)) + 20, 1000)
        text = "".join(random.choices(words, k=size // 3 + 1))[:size]
        file.write(json.dumps({"prompt": text[: size // 3], "completion": text[size // 3 :]}) + "\n")
END

# From the run's own clock, after 100 steps, in which a GPU that has rested slows down.
rate() {
  awk -v name="$2" -F'"seconds":' '/"step":/ { split($2, a, /[,}]/); time[++n] = a[1] }
    END { s = (time[n] - time[100]) / (n - 100); printf "%-28s %8.3f ms per step %9.0f tokens/s\n", name, s * 1000, 32768 / s }' \
    "$folder/$1/metrics.jsonl"
}
model="--model gpt2 --layers 12 --width 768 --heads 12 --context 1024 --batch 32"
types="--precision bf16 --params masters --device cuda"
train="--eval-every 0 --checkpoint-every 0 --sample 0 --layer-stats 0 --log-every 1 --steps 250 --quiet"
for graph in off on off on; do
  "$binade" train $model $types $train --graph $graph --data "$folder/chat.jsonl" --pack --out "$folder/packed"
  rate packed "packed, graph $graph"
  "$binade" train $model $types $train --graph $graph --data builtin --out "$folder/plain"
  rate plain "plain causal, graph $graph"
  rm -rf "$folder/packed" "$folder/plain"
done

rate_of='s/.*"tokens_per_second": *\([0-9.]*\).*/\1 tokens\/s/p'
torch() { "$python" "$here/torch_step.py" $types --mode compiled --attention flex "$@" | sed -n "$rate_of"; }
echo "PyTorch, FlexAttention, documents of about 255 tokens:"
torch $model --vocab 256 --documents 255 --warmup 100 --steps 50

for size in "2048 16" "8192 4"; do
  context=${size% *} batch=${size#* }
  options="--model llama --layers 4 --width 256 --heads 4 --hidden 688 --vocab 256 --context $context --batch $batch"
  for window in null 1024; do
    config="{\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\", \"hidden_act\": \"silu\",
      \"hidden_size\": 256, \"intermediate_size\": 688, \"num_attention_heads\": 4, \"num_key_value_heads\": 4,
      \"num_hidden_layers\": 4, \"max_position_embeddings\": 32768, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0,
      \"sliding_window\": $window, \"vocab_size\": 256, \"tie_word_embeddings\": false}"
    echo "window $window, T$context:"
    "$binade" bench step $options --architecture "$config" $types --json --warmup 300 --steps 100 | sed -n "$rate_of"
  done
  echo "PyTorch, FlexAttention, window 1024, T$context:"
  torch $options --window 1024 --warmup 300 --steps 100
done
