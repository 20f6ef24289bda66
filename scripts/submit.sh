#!/usr/bin/env bash
# Fills in a template of slurm/ and hands it to Slurm; docs/slurm.md says what happens then:
#   bash scripts/submit.sh CONFIG [key=value ...] [--dry-run] [--partition P] [--account A] [--time 1-00:00:00] [--qos Q]
# CONFIG is a train config (one node or several, as its section `launch` says) or an ablation. Other paths in a config
# are relative to the repository. --help lists all options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ! -x $root/.venv/bin/python ]]; then
  echo "submit: there is no .venv to run with: bash scripts/setup.sh baselines shell tracking" >&2
  exit 2
fi
if [[ $# -gt 0 && -f $1 ]]; then
  config=$(realpath "$1")
  shift
  set -- "$config" "$@"
fi
cd "$root"
exec .venv/bin/python -m horma_rl.slurm "$@"
