"""The command that counts the instructions of another command and of all processes that it starts."""

from __future__ import annotations

from collections.abc import Sequence

# Of valgrind's tools that count, cachegrind without its caches is the fastest: half the time of `exp-bbv`, a third
# of `callgrind`, a twelfth of `lackey`. Addresses stay the same from run to run, and so do hashes of them.
_SCRIPT = """log=$1
shift
if ! command -v valgrind >/dev/null; then
    echo 'valgrind is not installed here: install it, or set measure = "clock" under [benchmark]' >&2
    exit 127
fi
set -- valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --trace-children=yes \\
    --log-file="$log" -- "$@"
command -v setarch >/dev/null && set -- setarch "$(uname -m)" -R "$@"
exec "$@"
"""


def counted_command(command: Sequence[str], log: str) -> list[str]:
    """Return the command that runs this one and writes the counts to `log`, a pipe."""
    return ["/bin/sh", "-c", _SCRIPT, "count", log, *command]
