#!/bin/sh
# Sets up .venv with the locked dependencies, and bubblewrap where this user may install it.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

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

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

install_package() {
    if command -v apt-get >/dev/null; then
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null 2>&1 ||
            { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1"; } >/dev/null
    elif command -v dnf >/dev/null; then as_root dnf install -y -q "$1"
    elif command -v pacman >/dev/null; then as_root pacman -S --noconfirm "$1"
    elif command -v apk >/dev/null; then as_root apk add -q "$1"
    elif command -v zypper >/dev/null; then as_root zypper -nq install "$1"
    else return 1
    fi
}

python=$(newest_python)
if ! .venv/bin/python -c '' 2>/dev/null; then
    say "making .venv with $($python --version)"
    "$python" -m venv .venv 2>/dev/null || {
        say 'this Python has no venv module: installing it'
        install_package python3-venv || { say 'could not: install python3-venv, then try again'; exit 1; }
        rm -rf .venv
        "$python" -m venv .venv
    }
fi
say 'installing the locked dependencies'
.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
.venv/bin/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .

if ! command -v bwrap >/dev/null; then
    say 'installing bubblewrap'
    install_package bubblewrap ||
        say 'bubblewrap is missing and could not be installed: install it with your package manager;' \
            'until then only `--unsafe-no-sandbox` runs'
fi
touch .venv/.ready
