"""Verbs on a terminal, with typed answers."""

import os
import pty
import select
import subprocess
import sys
import time


def answered(place, *answers: str) -> tuple[int, str]:
    """Exit code and output of `loopty init` on a terminal where these answers are typed."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(place.top)
        os.execv(sys.executable, [sys.executable, "-m", "loopty.cli.main", "init"])
    screen, left = b"", list(answers)
    while True:
        try:
            seen = os.read(terminal, 4096)
        except OSError:
            break
        screen += seen
        if left and screen.endswith(b": "):
            os.write(terminal, left.pop(0).encode() + b"\n")
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), screen.decode()


def on_terminal(place, *args: str, keys: bytes) -> tuple[int, str]:
    """The exit code and output of a verb on a terminal, where the user types these keys when asked."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "loopty.cli.main", *args],
        cwd=place.top, stdin=side, stdout=side, stderr=side, start_new_session=True,
    )  # fmt: skip
    os.close(side)
    output, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([main], [], [], 0.2)[0]:
            try:
                output += os.read(main, 4096)
            except OSError:
                break
        if keys and b"[y/N]" in output:
            os.write(main, keys)
            keys = b""
    os.close(main)
    return process.wait(10), output.decode()
