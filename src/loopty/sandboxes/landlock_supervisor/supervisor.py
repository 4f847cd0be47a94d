"""Start a command in its Landlock domain, answer its calls, and leave none of its processes alive.

The standard input is a pipe from loopty: when it closes, because loopty wants the command to end or has itself
ended, the command is killed. How the command ended goes back in the report, another descriptor.
"""

# Without pathlib: its import would take as long as everything else.
# ruff: noqa: PTH123
from __future__ import annotations

import os
import resource
import select
import signal
import sys
import threading
import time
import warnings  # noqa: F401 - os.execvpe imports it, and inside the domain that may be out of reach

from loopty.sandboxes import raw_calls
from loopty.sandboxes.landlock_supervisor import landlock_domain
from loopty.sandboxes.landlock_supervisor.call_guard import CallGuard
from loopty.sandboxes.landlock_supervisor.closed_folders import make_reachable
from loopty.sandboxes.landlock_supervisor.order import SupervisorOrder, read_order
from loopty.sandboxes.landlock_supervisor.process_tree import Descendants

_STDIN, _STDOUT, _FIRST_OTHER = 0, 1, 3
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_MESSAGE_BYTES = 4096
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# When memory is short the kernel kills the trial first, before the program that started it.
_OOM_SCORE = b"500"
READY = b"ready "
ENDED = b"ended "


def main(order_file: int, report: int) -> None:
    """Carry out the order; a report that does not begin with ENDED says why that failed."""
    os.umask(0o022)
    # A service manager that stops all processes of loopty stops loopty, too, and then the pipe closes.
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raw_calls.prctl(raw_calls.PR_SET_CHILD_SUBREAPER, 1)
    order = read_order(order_file)
    descendants = Descendants()
    try:
        try:
            if order.owner is not None:
                make_reachable((*order.launch_paths, *order.writable_paths), *order.owner)
            answer = _run_command(order, descendants)
        finally:
            descendants.kill()
    except OSError as error:
        answer = str(error).encode()
    os.write(report, answer[:_MESSAGE_BYTES])
    # Threads that wait for a peer or for a call would keep the interpreter alive.
    os._exit(0)


def _run_command(order: SupervisorOrder, descendants: Descendants) -> bytes:
    report_in, report_out = os.pipe()
    go_in, go_out = os.pipe()
    if (child := os.fork()) == 0:
        os.close(report_in)
        os.close(go_out)
        _become_command(order, report_out, go_in)
    os.close(report_out)
    os.close(go_in)
    message = os.read(report_in, _MESSAGE_BYTES)
    if not message.startswith(READY):
        return message or b"the command ended before it began"
    command_pidfd = os.pidfd_open(child)
    guard = CallGuard(order, descendants)
    _serve_in_a_thread(guard, order, command_pidfd, int(message[len(READY) :]))
    started = time.monotonic()
    os.write(go_out, b"\n")
    select.select([_STDIN, command_pidfd], [], [])
    seconds = time.monotonic() - started
    guard.is_closing = True
    descendants.kill()
    return ENDED + b"%d %f" % (os.waitstatus_to_exitcode(descendants.statuses[child]), seconds)


def _serve_in_a_thread(guard: CallGuard, order: SupervisorOrder, command_pidfd: int, descriptor: int) -> None:
    """Start answering calls and return. Raises OSError when that fails."""
    problems: list[OSError | None] = []
    is_ready = threading.Event()

    def serve() -> None:
        try:
            if order.owner is not None:
                raw_calls.set_user_of_this_thread(*order.owner)
            listener = raw_calls.copy_descriptor(command_pidfd, descriptor)
        except OSError as error:
            problems.append(error)
            return
        finally:
            is_ready.set()
        guard.serve(listener)

    threading.Thread(target=serve, daemon=True).start()
    is_ready.wait()
    if problems and problems[0] is not None:
        raise problems[0]


def _become_command(order: SupervisorOrder, report_out: int, go_in: int) -> None:
    """Turn this process into the command."""
    try:
        listener = _confine(order, report_out, go_in)
        os.write(report_out, READY + b"%d" % listener)
        if not os.read(go_in, 1):
            os._exit(1)
    except OSError as error:
        os.write(report_out, str(error).encode())
        os._exit(1)
    try:
        os.execvpe(order.argv[0], order.argv, order.env)
    except OSError as error:
        os.write(2, f"{order.argv[0]}: {error.strerror}\n".encode(errors="replace"))
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _confine(order: SupervisorOrder, report_out: int, go_in: int) -> int:
    os.setsid()
    # Python itself ignores the last two.
    for number in (*_STOP_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    # A channel is already the standard output.
    if order.channel:
        os.dup2(_STDOUT, _STDIN)
    else:
        os.dup2(os.open("/dev/null", os.O_RDONLY), _STDIN)
    low, high = sorted((report_out, go_in))
    os.closerange(_FIRST_OTHER, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, os.sysconf("SC_OPEN_MAX"))
    with open("/proc/self/oom_score_adj", "rb+", buffering=0) as file:
        if int(file.read()) < int(_OOM_SCORE):
            file.write(_OOM_SCORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (order.disk_bytes, order.disk_bytes))
    # Still as root, who can open directories that the trial's user can only search.
    rules = landlock_domain.make_ruleset(
        order.abi, (*order.system_paths, *order.launch_paths), order.writable_paths, order.devices, order.network
    )
    if order.owner is not None:
        uid, gid = order.owner
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # After a change of user the process is not dumpable, and its user could not fetch the listener from it.
        raw_calls.prctl(raw_calls.PR_SET_DUMPABLE, 1)
    raw_calls.prctl(raw_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(order.cwd)
    raw_calls.prctl(raw_calls.PR_SET_NO_NEW_PRIVS, 1)
    landlock_domain.enter(rules)
    return raw_calls.install_filter(order.call_filter)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
