#!/usr/bin/env bash
# Sets up what is missing, then runs the linters, the type checker and the tests:
#   bash scripts/test.sh [pytest arguments]
# With arguments only pytest runs, with these: bash scripts/test.sh tests/unit -k reward
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/scripts/setup.sh" baselines deepspeed dev gym llm serving shell tracking
cd "$root"

# One thread: torch's threads contend with each other on small models. Offline: no test may need the network.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

if [[ $# -gt 0 ]]; then
  exec .venv/bin/python -m pytest "$@"
fi
.venv/bin/ruff check
.venv/bin/ruff format --check --quiet
.venv/bin/mypy
# Two processes, a file each at a time: most tests keep one core busy, and the fixtures of a file are made once.
# Long files come first, so that both end together.
exec .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/integration tests/conformance tests/unit
