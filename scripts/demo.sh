#!/bin/sh
# Evolve a program that packs circles, for at most two minutes, in a repository of its own: build/demo.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/environment.sh

name=loopty
command -v loopty >/dev/null || name=../../.venv/bin/loopty
loopty="$PWD/.venv/bin/loopty"
standing="$PWD/scripts/demo_standing.py"
page="$PWD/build/demo.page"
PATH="$PWD/.venv/bin:$PATH"

lock_file build/demo.lock || {
    printf 'Another demo is running in build/demo: wait for it (two minutes), then run make demo again.\n' >&2
    exit 1
}
rm -rf build/demo
cp -R examples/circle_packing build/demo
cd build/demo
if [ -n "${DEMO_TARGET:-}" ]; then   # the score to stop at, before the two minutes are over
    # A busy machine gets more than the two minutes to reach it.
    sed -i "s/^target = .*/target = $DEMO_TARGET/; s/^wall_seconds = .*/wall_seconds = 400/" loopty.toml
fi
git init -q -b main
git add -A
git -c user.name=demo -c user.email=demo@localhost commit -q -m 'Circle packing, before the search'

# show_address: of the dashboard, which ends with the demo; the command, if it does not start within ten seconds.
show_address() {
    "$loopty" dashboard >"$page" 2>&1 9>&- &
    dashboard=$!
    trap 'kill $dashboard 2>/dev/null || :' EXIT
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        address=$(grep -m 1 '^http' "$page") && break
        kill -0 $dashboard 2>/dev/null || break
        sleep 0.5
    done
    printf 'Watch it:  %s\n\n' "${address:-cd build/demo;  $name dashboard}"
}

printf 'The task: 26 circles in the unit square, with the largest sum of radii.\nIt takes at most two minutes.\n'
show_address
"$loopty" optimize
printf '\n'
"$loopty" report --top 3
printf '\nThe change from the first program to the best one (loopty diff best --baseline):\n\n'
"$loopty" diff best --baseline
printf '\n'
"$loopty" status --json | python3 "$standing"
printf '\nLook around:  cd build/demo;  then %s tree, dashboard, apply best\n' "$name"
