#!/bin/sh
# Set up .venv with the locked dependencies, and install bubblewrap where this user may.
set -eu
cd "$(dirname "$0")/.."

. scripts/packages.sh

newest_python() {
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s' "$candidate"
            return
        fi
    done
    say 'loopty needs Python 3.11 or newer: install it, or name it with PYTHON=…'
    exit 1
}

python=$(newest_python)
if ! .venv/bin/python -c '' 2>/dev/null; then
    say "making .venv with $($python --version)"
    "$python" -m venv .venv 2>/dev/null || {
        say 'this Python has no venv module: installing it'
        install_packages python3-venv || { say 'could not: install python3-venv, then try again'; exit 1; }
        rm -rf .venv
        "$python" -m venv .venv
    }
fi
say 'installing the locked dependencies'
.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
.venv/bin/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .

if ! command -v bwrap >/dev/null; then
    say 'installing bubblewrap'
    install_packages bubblewrap ||
        say 'bubblewrap is missing and could not be installed: install it with your package manager;' \
            'until then only `--unsafe-no-sandbox` runs'
fi
touch .venv/.ready
