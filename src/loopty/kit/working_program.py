"""Finds programs that work: rustup's `rustc` without a toolchain is on the search path, and does nothing."""

from __future__ import annotations

import shutil
import subprocess

_VERSION = {"go": ("version",), "java": ("-version",), "sshd": ("-V",), "ip": ("-V",), "sh": ("-c", "true")}
"""How to ask for a version where it is not by `--version`."""
_SECONDS = 60
"""A busy machine may take long to start a program."""


def working_program(name: str, path: str | None = None) -> str | None:
    """Find a program on a search path, by default the user's, and return its path if it states its version.

    For names of loopty's own: the program runs with the rights of the user.
    """
    program = shutil.which(name, path=path)
    if program is None:
        return None
    command = [program, *_VERSION.get(name, ("--version",))]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, cwd="/")
    except (OSError, subprocess.TimeoutExpired):
        return None
    # An sshd before OpenSSH 9.3 states its version with an error, because it does not know the question.
    return program if done.returncode == 0 or b"OpenSSH" in done.stderr else None
