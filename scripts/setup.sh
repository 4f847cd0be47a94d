#!/bin/sh
# Set up .venv with what loopty needs to run, and install bubblewrap where this user may.
# Arguments: the files that .venv/.ready depends on.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/environment.sh

begin_setup .venv/.ready "$@"
make_venv
install_locked requirements-runtime.lock
.venv/bin/python scripts/page.py build ||
    say 'everything but the dashboard works without the page; `make page` builds it when that is mended'
if ! command -v bwrap >/dev/null; then
    say 'installing bubblewrap'
    install_packages bubblewrap ||
        say 'bubblewrap is missing and could not be installed: install it with your package manager.' \
            'Until then loopty uses Landlock where the kernel has it; `loopty doctor` says what it protects.'
fi
end_setup .venv/.ready
