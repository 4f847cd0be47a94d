#!/bin/sh
# Optimise the circle packing example for about a minute, in a repository of its own: build/demo.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/environment.sh

name=loopty
command -v loopty >/dev/null || name=../../.venv/bin/loopty
loopty="$PWD/.venv/bin/loopty"
standing="$PWD/scripts/demo_standing.py"
PATH="$PWD/.venv/bin:$PATH"

lock_file build/demo.lock || {
    printf 'Another demo is running in build/demo: wait for it (a minute), then run make demo again.\n' >&2
    exit 1
}
rm -rf build/demo
cp -R examples/circle_packing build/demo
cd build/demo
if [ -n "${DEMO_TARGET:-}" ]; then   # the score to stop at, before the minute is over
    # A busy machine gets more than the minute to reach it.
    sed -i "s/^target = .*/target = $DEMO_TARGET/; s/^wall_seconds = .*/wall_seconds = 400/" loopty.toml
fi
git init -q -b main
git add -A
git -c user.name=demo -c user.email=demo@localhost commit -q -m 'Circle packing, before the search'

printf 'The task: 26 circles in the unit square, with the largest sum of radii. It takes about a minute.\n\n'
"$loopty" optimize
printf '\n'
"$loopty" report --top 3
printf '\nThe change from the first program to the best one (loopty diff best --baseline):\n\n'
"$loopty" diff best --baseline
printf '\n'
"$loopty" status --json | python3 "$standing"
printf '\nLook around:  cd build/demo;  %s tree;  %s show best;  %s apply best\n' "$name" "$name" "$name"
