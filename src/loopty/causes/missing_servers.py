"""Causes: tests that talk to a server of this machine. Trials have a network of their own, where none runs."""

from __future__ import annotations

import re

from loopty.causes.cause import Cause
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts
from loopty.causes.system_packages import PackageInstaller
from loopty.kit.records import Record


class _Server(Record):
    program: str
    pattern: str
    """How a client names it: by its port or its name."""
    start: str
    """Starts it, and waits until it answers."""


_SERVERS = (
    _Server(
        "redis-server",
        r"\b6379\b|\bredis\b",
        'redis-server --save "" --daemonize yes > "$TMPDIR/redis.log" && '
        'timeout 30 sh -c "until redis-cli ping; do sleep 0.1; done"',
    ),
    # It reads the user's name only where it runs as root, as in a namespace of its own.
    _Server("memcached", r"\b11211\b|\bmemcached?\b", "memcached -d -u root && sleep 1"),
)


def no_server(failure: Failure, facts: HostFacts) -> Cause | None:
    """A trial that connects to a server: one that is known is started first, in the trial itself."""
    if not failure.match(r"[Cc]onnection refused", r"ECONNREFUSED"):
        return None
    sentence = "the trial connects to a server, and none runs in the sandbox, whose network is its own"
    said = f"{failure.text}\n{failure.output}"
    server = next((one for one in _SERVERS if re.search(one.pattern, said, re.IGNORECASE)), None)
    if server and facts.program(server.program) and server.start not in failure.command:
        line = f"{server.start} && {failure.command}"
        return Cause("no-server", sentence, (failure.own_setting("command", line),))
    if (
        server
        and not facts.program(server.program)
        and (line := PackageInstaller(facts).program_line(server.program))
    ):
        return Cause("no-server", f"{sentence}; {server.program} is not installed", shell=line)
    return Cause(
        "no-server",
        sentence,
        advice="start the server in the command, as in `redis-server & sleep 1; make test`, or measure what does "
        "without",
    )
