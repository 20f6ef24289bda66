#!/usr/bin/env bash
# Sets up what is missing, then trains:
#   bash scripts/train.sh [CONFIG] [key=value ...]
# CONFIG is a run config (default configs/train/tiny_cpu.yaml); key=value overrides one of its fields. Run it again to
# go on with a run that was cut short. Other paths in a config are relative to the repository.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
config=$root/configs/train/tiny_cpu.yaml
if [[ $# -gt 0 && $1 != -* && $1 != *=* ]]; then
  config=$1
  [[ -f $config ]] && config=$(realpath "$config")
  shift
fi

bash "$root/scripts/setup.sh" baselines shell tracking
cd "$root"
exec .venv/bin/horma-rl train "$config" "$@"
