#!/bin/sh
# Add to .venv what the tests and the checks need: all extras, and the tools of development.
# Arguments: the files that .venv/.ready-for-development depends on.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/environment.sh

begin_setup .venv/.ready-for-development "$@"
make_venv
install_locked requirements.lock
end_setup .venv/.ready-for-development
