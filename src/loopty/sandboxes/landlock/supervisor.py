"""Start a command in its Landlock domain, answer its calls, and leave none of its processes alive.

The standard input is a pipe from loopty: when it closes, because loopty wants the command to end or has itself
ended, the command is killed. How the command ended goes back in the report, another descriptor.
"""

# Without pathlib: its import would take as long as everything else.
# ruff: noqa: PTH102, PTH103, PTH116, PTH123

from __future__ import annotations

import os
import resource
import select
import signal
import stat
import sys
import threading
import time
import warnings  # noqa: F401 - os.execvpe imports it, and inside the domain that may be out of reach
from collections.abc import Iterable

from loopty.sandboxes import raw_calls
from loopty.sandboxes.landlock.call_guard import CallGuard, Descendants
from loopty.sandboxes.landlock.order import SupervisorOrder, enter, make_ruleset, read_order
from loopty.sandboxes.raw_calls import CLONE_NEWNS, MS_BIND, MS_NODEV, MS_NOSUID, MS_REC, MS_SLAVE, mount, unshare

_SEARCH_ONLY = 0o711


def make_reachable(paths: Iterable[str], uid: int, gid: int) -> None:
    """Make every path reachable for the user under its own name, in a mount namespace of this process.

    A closed directory is covered by one that everyone may search and that holds only these paths.
    """
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        if (folder := _topmost_closed_folder(path, uid, gid)) is not None:
            by_folder.setdefault(folder, []).append(path)
    if not by_folder:
        return
    unshare(CLONE_NEWNS)
    # A slave mount still follows what the host mounts and unmounts, but the host sees nothing of ours.
    mount("none", "/", None, MS_REC | MS_SLAVE)
    for folder, paths_inside in by_folder.items():
        _replace(folder, sorted(paths_inside))


def _topmost_closed_folder(path: str, uid: int, gid: int) -> str | None:
    """Return the topmost directory above `path` that the user cannot search, or None."""
    names = path.split("/")
    for length in range(1, len(names)):
        directory = "/".join(names[:length]) or "/"
        if not _may_search(os.stat(directory), uid, gid):
            return directory
    return None


def _may_search(status: os.stat_result, uid: int, gid: int) -> bool:
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _replace(folder: str, paths: list[str]) -> None:
    # A path below another of these paths is already shown by that one.
    outermost = [path for path in paths if not any(path.startswith(f"{above}/") for above in paths)]
    sources = {path: os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for path in outermost}
    mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={_SEARCH_ONLY:o}")
    for path, source in sources.items():
        parent, is_directory = path.rpartition("/")[0], stat.S_ISDIR(os.fstat(source).st_mode)
        os.makedirs(parent, _SEARCH_ONLY, exist_ok=True)
        if is_directory:
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        mount(f"/proc/self/fd/{source}", path, None, MS_BIND | MS_REC)
        os.close(source)


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
    rules = make_ruleset(
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
    enter(rules)
    return raw_calls.install_filter(order.call_filter)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
