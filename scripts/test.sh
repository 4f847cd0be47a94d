#!/bin/sh
# Run all tests, as many at once as there are cores. A test that fails is run once more by itself: trials with time
# limits can miss them beside other tests on a busy machine. What fails twice has failed.
set -eu
cd "$(dirname "$0")/.."

.venv/bin/pytest -n auto --dist loadgroup --durations 20 --durations-min 1 "$@" && exit 0
printf '\nSome tests failed beside others; each of them now runs by itself.\n\n'
.venv/bin/pytest -v -x --last-failed --last-failed-no-failures none "$@"
printf '\nThese tests failed beside others and passed by themselves: the first summary above names them.\n'
