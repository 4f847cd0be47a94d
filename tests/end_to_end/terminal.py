"""`loopty init` on a terminal, with typed answers."""

import os
import pty
import sys


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
