#!/bin/bash
# Measures ResNet50 and the MNIST-CNN on this machine's GPU, natively, with PyTorch and JAX: interleaved, the order
# reversed in every other round. Each run leaves its metrics (and its output, .log) in a folder.
#
#     benchmarks/gpu.sh FOLDER [MNIST_FOLDER]
#
# MNIST_FOLDER holds the MNIST-CNN's images; without it, ResNet50 alone is measured, on drawn images.
# Environment: PYTORCH_PYTHON and JAX_PYTHON (python3; each must import its framework with CUDA), ROUNDS (5),
# RESNET50 and MNIST_CNN: options of the scripts, instead of those below.
set -euo pipefail

folder=$(realpath -m "${1:?usage: gpu.sh FOLDER [MNIST_FOLDER]}")
mnist=${2:+$(realpath -e "$2")}
benchmarks=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
pytorch=${PYTORCH_PYTHON:-python3}
jax=${JAX_PYTHON:-python3}
rounds=${ROUNDS:-5}
read -ra resnet50 <<<"${RESNET50:---batch-size 96 --images 3840 --epochs 3}"
read -ra mnist_cnn <<<"${MNIST_CNN:---epochs 4 --dropout 0}"

# workload, framework, name of the variant, switches
variants=()
for workload in resnet50 mnist_cnn; do
    [ "$workload" = resnet50 ] || [ -n "$mnist" ] || continue
    variants+=(
        "$workload pytorch eager"
        "$workload pytorch channels_last --memory-format channels_last"
        "$workload pytorch compiled --compiler inductor"
        "$workload pytorch compiled_channels_last --compiler inductor --memory-format channels_last"
        "$workload pytorch tf32 --precision tf32 --memory-format channels_last"
        "$workload pytorch tf32_compiled --precision tf32 --memory-format channels_last --compiler inductor"
        "$workload pytorch bf16 --precision bf16 --memory-format channels_last"
        "$workload pytorch bf16_compiled --precision bf16 --memory-format channels_last --compiler inductor"
        "$workload jax eager --compiler none"
        "$workload jax compiled --memory-format contiguous"
        "$workload jax compiled_channels_last --memory-format channels_last"
        "$workload jax tf32 --precision tf32"
        "$workload jax bf16 --precision bf16"
    )
done

require_gpu() {
    "$pytorch" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
        { echo "error: $pytorch has no PyTorch that finds a GPU" >&2; exit 2; }
    "$jax" -c 'import jax; assert jax.default_backend() == "gpu"' 2>/dev/null ||
        { echo "error: $jax has no JAX that finds a GPU" >&2; exit 2; }
}

measure() { # round, workload, framework, name, switches
    local round=$1 workload=$2 framework=$3 name=$4
    shift 4
    local python=$pytorch script=pytorch.py options=("${resnet50[@]}")
    if [ "$framework" = jax ]; then python=$jax script=jax_functional.py; fi
    if [ "$workload" = mnist_cnn ]; then options=(--data "$mnist" "${mnist_cnn[@]}"); else options+=(--source synthetic); fi
    local result="$folder/$workload-$framework-$name-round$round"
    echo "round $round/$rounds: $workload, $framework, $name"
    # JAX would take three quarters of the GPU's memory at once, and say nothing of what the training needs.
    (cd "$benchmarks/$workload" && XLA_PYTHON_CLIENT_PREALLOCATE=false "$python" "$script" "${options[@]}" "$@" \
        --metrics "$result.metrics.json") >"$result.log" 2>&1 || failed+=("$result.log")
}

require_gpu
mkdir -p "$folder"
failed=()
for ((round = 1; round <= rounds; round++)); do
    for ((place = 0; place < ${#variants[@]}; place++)); do
        ((round % 2)) && number=$place || number=$((${#variants[@]} - 1 - place))
        read -ra words <<<"${variants[number]}"
        measure "$round" "${words[@]}"
    done
done
if ((${#failed[@]})); then
    printf 'failed: %s\n' "${failed[@]}" >&2
    exit 1
fi
