"""Run verbs in processes forked from one that has imported loopty: importing it anew is most of a verb's time.

Tests that kill a verb, look at it while it works, or measure what it imports start a process of their own.
"""

import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NoReturn

_PATIENCE_SECONDS = 300
_LONGEST_ORDER = 1 << 20


class ForkServer:
    """The process to fork from. It ends with the process that started it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST_ORDER)
        command = [sys.executable, __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def run(self, args: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess:
        """The result of `loopty ARGS`, called in the folder."""
        order = json.dumps({"args": args, "folder": str(folder), "environ": dict(os.environ)}).encode()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status, theirs = os.pipe()
            try:
                socket.send_fds(self._socket, [order], [out.fileno(), err.fileno(), theirs])
                os.close(theirs)
                assert select.select([status], [], [], _PATIENCE_SECONDS)[0], f"loopty {args} does not end"
                code = os.waitstatus_to_exitcode(int(os.read(status, 16)))
            finally:
                os.close(status)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(args, code, out.read().decode(), err.read().decode())


def run_verb(args: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess:
    """The result of `loopty ARGS`, called in the folder."""
    if _interpreter_settings() == _SETTINGS:
        return _server(str(Path("/proc/self/ns/mnt").readlink())).run(args, folder)
    command = [sys.executable, "-m", "loopty.cli.main", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_SECONDS)


@cache
def _server(_mounts: str) -> ForkServer:
    """The server of this worker of the test runner; a new one where it sees other mounts than before."""
    return ForkServer()


def _interpreter_settings() -> dict[str, str]:
    """The variables that Python reads as it starts: they have no effect on a process that has started."""
    return {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}


_SETTINGS = _interpreter_settings()


def _serve(orders: socket.socket) -> None:
    """Fork for each order, until no client is left; return in the process that is to run the verb."""
    while True:
        order, files, _, _ = socket.recv_fds(orders, _LONGEST_ORDER, 3)
        if not order:
            sys.exit()
        if os.fork() == 0 and not _wait_for_verb(files[2]):
            _become(json.loads(order), files)
            return
        for file in files:
            os.close(file)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _wait_for_verb(status: int) -> int:
    """Fork once more: 0 in the process that runs the verb; the other writes how it ended, and exits."""
    if verb := os.fork():
        os.write(status, b"%d" % os.waitpid(verb, 0)[1])
        os._exit(0)
    return verb


def _become(order: dict, files: list[int]) -> None:
    """Take over what a new process would have been given."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in zip([nothing, *files[:2]], range(3), strict=True):
        os.dup2(source, target)
    os.closerange(3, 64)
    os.setsid()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environ"])
    sys.argv = ["loopty", *order["args"]]


def _main() -> NoReturn:
    from loopty.cli.call import call_verb
    from loopty.cli.verbs import VERBS, verb_place
    from loopty.kit.by_name import by_name

    for verb in VERBS:
        by_name(verb_place(verb))
    for name in ("campaign.campaign", "campaign.optimize", "taskfile.plugins", "show.live"):
        importlib.import_module(f"loopty.{name}")
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    call_verb()
    sys.exit()


if __name__ == "__main__":
    _main()
