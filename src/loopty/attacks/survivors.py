"""Attacks that leave a process behind."""

from __future__ import annotations

from loopty.attacks.attack import BOUNDS, Attack
from loopty.attacks.threats import Threat
from loopty.domain.launch import Protection
from loopty.kit.records import replace

# Forked twice, in a session of its own, ignoring signals, without an environment variable to identify it. It
# reports when it runs, and exits by itself after a minute.
_DAEMON = """
import signal
code = "import os, sys, time; open(sys.argv[1], 'x'); time.sleep(60)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.chdir("/")
        {}
        os.execve(sys.executable, ["python3", "-I", "-S", "-c", code, OUT + "/there", HOST["mark"]], {{}})
    os._exit(0)
os.wait()
while not os.path.exists(OUT + "/there"):
    time.sleep(0.01)
{}
"""
_CLOSE_OUTPUT = "os.closerange(0, 256)"

ATTACKS = (
    Attack(
        "leave a daemon",
        Threat.SURVIVORS,
        Protection.SURVIVORS,
        _DAEMON.format(_CLOSE_OUTPUT, ""),
    ),
    Attack(
        "leave a daemon that holds the output open",
        Threat.SURVIVORS,
        Protection.SURVIVORS,
        _DAEMON.format("pass", ""),
    ),
    Attack(
        "leave a daemon when time is up",
        Threat.SURVIVORS,
        Protection.SURVIVORS,
        _DAEMON.format(_CLOSE_OUTPUT, "time.sleep(60)"),
        bounds=replace(BOUNDS, seconds=2),
    ),
    Attack(
        "leave a daemon when memory is full",
        Threat.SURVIVORS,
        Protection.SURVIVORS,
        _DAEMON.format(_CLOSE_OUTPUT, "taken = b'x' * (80 << 20)\ntime.sleep(60)"),
        bounds=replace(BOUNDS, seconds=10, memory_mb=64),
    ),
)
