#!/bin/sh
# Training steps of the same model in Binade and in PyTorch, one after the other, and their ratio.
#   bench/compare_step.sh BINADE [options of both: --device cuda --params masters --layers 12 --threads 1 ...]
# Both sides keep parameters, residual stream and optimizer state in the same types (--params), and PyTorch
# is taken at its best: the fastest of its modes and attention kernels. Binade gives the same bits on every
# run; on a GPU its faster form without that promise is timed as well. Its first runs have lean activations.
# PYTHON names the interpreter that has torch (python3), TORCH_OPTIONS what PyTorch alone is told (such as
# --mode compiled --attention default,cudnn), BINADE_OPTIONS what more runs of Binade are told, separated by
# semicolons (such as --gradients bf16, which PyTorch's bf16 models have, too), and RESULTS a folder for the
# JSON files.
set -eu
binade=${1:?usage: compare_step.sh path/to/binade [options]}
shift
folder=$(dirname "$0")
results=${RESULTS:-$(mktemp -d)}
mkdir -p "$results"
"$binade" bench step --json --activations lean "$@" >"$results/binade.json"
case " $* " in
  *" cuda "*) "$binade" bench step --nondeterministic --json --activations lean "$@" >"$results/binade_any_order.json" ;;
esac
if [ -n "${BINADE_OPTIONS:-}" ]; then
  run=0
  echo "$BINADE_OPTIONS" | tr ';' '\n' | while read -r options; do
    common=" $* "
    case " $options" in *" --params "*) common=$(echo "$common" | sed 's/ --params [a-z]* / /') ;; esac
    # shellcheck disable=SC2086 # options are words
    "$binade" bench step --json $common $options >"$results/binade_options_$run.json" </dev/null
    run=$((run + 1))
  done
fi
# shellcheck disable=SC2086 # options are words
"${PYTHON:-python3}" "$folder/torch_step.py" ${TORCH_OPTIONS:-} "$@" >"$results/torch.json"
"${PYTHON:-python3}" "$folder/compare_step.py" "$results"
