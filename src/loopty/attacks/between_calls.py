"""Attacks on what the benchmark measures meanwhile: processes that run when the candidate is not asked."""

from __future__ import annotations

import time

from loopty.attacks.attack import Attack
from loopty.attacks.threats import Threat
from loopty.domain.launch import Freezer

_LOOK_SECONDS = 0.5
_TICKS_SECONDS = 0.05
"""What the kernel may still charge to a process that is stopped, where it counts in ticks."""

# Forked twice and in their own session, as a daemon is.
_SPINNERS = """
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(OUT + "/pids", "a") as file:
                file.write("%d\\n" % os.getpid())
            while True:
                pass
        os._exit(0)
    os.wait()
{}
ready()
while True:
    pass
"""


def use_while_stopped(freezer: Freezer) -> str:
    """Stop the processes, as between two calls, and say what CPU they use then; an empty text when it is none."""
    freezer.freeze()
    before = freezer.cpu_seconds()
    time.sleep(_LOOK_SECONDS)
    used = freezer.cpu_seconds() - before
    return f"used {used:.2f} s of CPU while it was stopped" if used > _TICKS_SECONDS else ""


ATTACKS = (
    Attack(
        "spin while the benchmark measures something else",
        Threat.BETWEEN_CALLS,
        None,
        _SPINNERS.format(""),
        meanwhile=use_while_stopped,
    ),
    Attack(
        "spin in processes that wake each other",
        Threat.BETWEEN_CALLS,
        None,
        _SPINNERS.format(
            """
if os.fork() == 0:
    while True:
        for pid in open(OUT + "/pids").read().split():
            os.kill(int(pid), 18)
"""
        ),
        meanwhile=use_while_stopped,
    ),
)
