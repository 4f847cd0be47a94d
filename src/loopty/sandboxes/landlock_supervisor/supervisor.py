"""Start a command in its domain, answer for it, and leave nothing of it alive.

The standard input is a pipe from loopty: when it closes, because loopty wants an end or has met its own, the
command is over. How it ended goes back through another pipe.
"""

# Without pathlib, whose import would take as long as all the rest.
# ruff: noqa: PTH123
from __future__ import annotations

import os
import resource
import select
import signal
import sys
import threading
import time

from loopty.sandboxes.landlock_supervisor import landlock_domain, raw_calls
from loopty.sandboxes.landlock_supervisor.call_guard import CallGuard
from loopty.sandboxes.landlock_supervisor.closed_folders import make_reachable
from loopty.sandboxes.landlock_supervisor.order import SupervisorOrder, read_order
from loopty.sandboxes.landlock_supervisor.process_tree import Descendants

_STDIN, _STDOUT, _FIRST_OTHER = 0, 1, 3
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_MESSAGE_BYTES = 4096
_OF_SERVICES = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# The trial goes first when memory is short, before whoever started it.
_OOM_SCORE = b"500"
READY = b"ready "
ENDED = b"ended "


def main(order_file: int, report: int) -> None:
    """Carry out the order; a report that does not begin with ENDED says why it could not be."""
    os.umask(0o022)
    # Whoever stops all processes of loopty stops loopty, too, and then the pipe closes.
    for number in _OF_SERVICES:
        signal.signal(number, signal.SIG_IGN)
    raw_calls.prctl(raw_calls.PR_SET_CHILD_SUBREAPER, 1)
    order = read_order(order_file)
    family = Descendants()
    try:
        try:
            if order.owner is not None:
                make_reachable((*order.shown, *order.writable), *order.owner)
            answer = _run_command(order, family)
        finally:
            family.kill()
    except OSError as error:
        answer = str(error).encode()
    os.write(report, answer[:_MESSAGE_BYTES])
    # Threads that wait for a peer or for a call would keep the interpreter.
    os._exit(0)


def _run_command(order: SupervisorOrder, family: Descendants) -> bytes:
    said, saying = os.pipe()
    going, go = os.pipe()
    if (child := os.fork()) == 0:
        os.close(said)
        os.close(go)
        _become_command(order, saying, going)
    os.close(saying)
    os.close(going)
    message = os.read(said, _MESSAGE_BYTES)
    if not message.startswith(READY):
        return message or b"the command ended before it began"
    leader = os.pidfd_open(child)
    guard = CallGuard(order, family)
    _serve_in_a_thread(guard, order, leader, int(message[len(READY) :]))
    started = time.monotonic()
    os.write(go, b"\n")
    select.select([_STDIN, leader], [], [])
    seconds = time.monotonic() - started
    guard.is_closing = True
    family.kill()
    return ENDED + b"%d %f" % (os.waitstatus_to_exitcode(family.statuses[child]), seconds)


def _serve_in_a_thread(guard: CallGuard, order: SupervisorOrder, leader: int, descriptor: int) -> None:
    """Return when calls are being answered; OSError when they cannot be."""
    problems: list[OSError | None] = []
    begun = threading.Event()

    def serve() -> None:
        try:
            if order.owner is not None:
                raw_calls.set_user_of_this_thread(*order.owner)
            listener = raw_calls.copy_descriptor(leader, descriptor)
        except OSError as error:
            problems.append(error)
            return
        finally:
            begun.set()
        guard.serve(listener)

    threading.Thread(target=serve, daemon=True).start()
    begun.wait()
    if problems and problems[0] is not None:
        raise problems[0]


def _become_command(order: SupervisorOrder, saying: int, going: int) -> None:
    """Turn this process into the command."""
    try:
        listener = _confine(order, saying, going)
        os.write(saying, READY + b"%d" % listener)
        if not os.read(going, 1):
            os._exit(1)
    except OSError as error:
        os.write(saying, str(error).encode())
        os._exit(1)
    try:
        os.execvpe(order.argv[0], order.argv, order.env)
    except OSError as error:
        os.write(2, f"{order.argv[0]}: {error.strerror}\n".encode(errors="replace"))
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _confine(order: SupervisorOrder, saying: int, going: int) -> int:
    os.setsid()
    # Python itself ignores the last two.
    for number in (*_OF_SERVICES, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    # A channel is the standard output already.
    if order.channel:
        os.dup2(_STDOUT, _STDIN)
    else:
        os.dup2(os.open("/dev/null", os.O_RDONLY), _STDIN)
    low, high = sorted((saying, going))
    os.closerange(_FIRST_OTHER, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, os.sysconf("SC_OPEN_MAX"))
    with open("/proc/self/oom_score_adj", "rb+", buffering=0) as file:
        if int(file.read()) < int(_OOM_SCORE):
            file.write(_OOM_SCORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (order.disk_bytes, order.disk_bytes))
    # By root still, who can open what its trial can only pass.
    rules = landlock_domain.make_ruleset(order.abi, (*order.readable, *order.shown), order.writable, order.network)
    if order.owner is not None:
        uid, gid = order.owner
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # A change of user forbids it to the trial's user to fetch the listener from here.
        raw_calls.prctl(raw_calls.PR_SET_DUMPABLE, 1)
    raw_calls.prctl(raw_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(order.cwd)
    raw_calls.prctl(raw_calls.PR_SET_NO_NEW_PRIVS, 1)
    landlock_domain.enter(rules)
    return raw_calls.install_filter(order.program)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
