#!/usr/bin/env bash
# Makes .venv and installs horma-rl (editable) with the given extras at the releases of constraints.txt:
#   bash scripts/setup.sh [EXTRA ...]
# Does nothing when that is done already. PYTHON names the interpreter to build .venv with (3.11 or newer).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
stamp=$venv/.setup-stamp

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local candidate
  if [[ -n ${PYTHON:-} ]]; then
    is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.11 or newer; name one, or unset PYTHON"
    printf '%s' "$PYTHON"
    return
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if is_new_enough "$candidate"; then
      printf '%s' "$candidate"
      return
    fi
  done
  fail "Python 3.11 or newer is needed (Debian, Ubuntu: apt-get install python3 python3-venv); PYTHON=/path/to/python names one"
}

# What an installation depends on: dependencies, pins, the checkout's place and the interpreter.
fingerprint() {
  { cat "$root/pyproject.toml" "$root/constraints.txt"; printf '%s\n' "$root"; readlink -f "$venv/bin/python"; } | sha256sum | cut -d ' ' -f 1
}

# Is everything in $@ installed with the present fingerprint?
is_done() {
  [[ -f $stamp && -x $venv/bin/horma-rl && $(head -n 1 "$stamp") == "$(fingerprint)" ]] || return 1
  local extra
  for extra in "$@"; do
    grep -qxF "extra $extra" "$stamp" || return 1
  done
}

make_venv() {
  if is_new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    return
  fi
  local python
  python=$(find_python)
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python cannot make virtual environments (Debian, Ubuntu: apt-get install python3-venv)"
  say "making .venv with $("$python" --version)"
  "$python" -m venv --clear "$venv" || fail "could not make $venv"
}

pip_install() {
  local quiet=(--quiet)
  [[ -t 2 ]] && quiet=()
  "$venv/bin/python" -m pip install --no-input --disable-pip-version-check ${quiet[@]+"${quiet[@]}"} \
    --constraint "$root/constraints.txt" "$@" ||
    fail "pip failed, see above; once the cause is gone, run the same command again and it goes on"
}

if is_done "$@"; then
  exit 0
fi
if command -v flock >/dev/null; then  # two first runs at once must not install into one another
  exec 9>"$root/.setup-lock"
  flock 9
  if is_done "$@"; then
    exit 0
  fi
fi

started=$SECONDS
make_venv
extras=$(printf '%s\n' "$@" $(sed -n 's/^extra //p' "$stamp" 2>/dev/null || true) | sed '/^$/d' | sort -u)
rm -f "$stamp"
say "installing $(grep '^torch==' "$root/constraints.txt"), the largest package: minutes on a slow connection"
pip_install "$(grep '^torch==' "$root/constraints.txt")"
say "installing horma-rl${extras:+ with $(tr '\n' ' ' <<<"$extras")}"
pip_install --editable "$root${extras:+[$(paste -sd, <<<"$extras")]}"
"$venv/bin/horma-rl" --help >/dev/null || fail "$venv/bin/horma-rl does not start"
{ fingerprint; [[ -z $extras ]] || sed 's/^/extra /' <<<"$extras"; } >"$stamp"
say "ready after $((SECONDS - started)) s: $venv/bin/horma-rl"
