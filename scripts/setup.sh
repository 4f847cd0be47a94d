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
    say 'loopty needs Python 3.11 or newer: install it, or set PYTHON=… to its path'
    exit 1
}

python=$(newest_python)
if ! .venv/bin/python -c '' 2>/dev/null; then
    say "creating .venv with $($python --version)"
    "$python" -m venv .venv 2>/dev/null || {
        say 'this Python has no venv module: installing it'
        install_packages python3-venv || { say 'python3-venv could not be installed: install it, then try again'; exit 1; }
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
        say 'bubblewrap is missing and could not be installed: install it with your package manager.' \
            'Until then loopty uses Landlock where the kernel has it; `loopty doctor` says what it protects.'
fi
touch .venv/.ready
