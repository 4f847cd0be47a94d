"""Answer the calls that Landlock does not cover: modes and times of files, sockets, the number of processes, which
it finds and kills.

A call whose memory or descriptors could change between the check and its execution is never let through: the guard
carries out what it allows itself, with the rights of the trial's user, on exactly what it checked.
"""

# Without pathlib: its import would take as long as everything else.
# ruff: noqa: PTH101, PTH115, PTH123, PTH208

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator

from loopty.sandboxes import raw_calls
from loopty.sandboxes.landlock.order import SupervisorOrder

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_CONTINUE = 1

_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = -100, 0x100, 0x1000
_SET_ID = 0o6000
_PATH_BYTES, _TIMES_BYTES, _ADDRESS_BYTES = 4096, 32, 128
_AF_UNIX = 1
# Long enough for /proc to show a fork that was just allowed.
_SETTLING_SECONDS = 0.001


class _Call:
    """One system call that waits for its answer."""

    def __init__(self, listener: int, notification: bytearray) -> None:
        self.id, self.pid, _, self.number, _, _, *self.arguments = _NOTIFICATION.unpack(notification)
        self._listener = listener

    def integer_at(self, index: int) -> int:
        """Return the argument at `index` as a C int."""
        return int.from_bytes((self.arguments[index] & 0xFFFFFFFF).to_bytes(4, "little"), "little", signed=True)

    def memory_at(self, index: int, size: int) -> bytes:
        """Read up to `size` bytes at the pointer in the argument. Raises OSError when there is no memory."""
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            self.check_waiting()
            try:
                return os.pread(memory.fileno(), size, self.arguments[index])
            except (OSError, OverflowError) as error:
                raise OSError(errno.EFAULT, "no memory there") from error

    def path_at(self, index: int, flags: int) -> bytes:
        """Read the path at the pointer in the argument. Raises OSError if too long, or empty without a flag."""
        path, end, _ = self.memory_at(index, _PATH_BYTES).partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, "no end")
        if not path and not flags & _AT_EMPTY_PATH:
            raise OSError(errno.ENOENT, "no name")
        return path

    def open_file(self, directory: int, path: bytes, follow: bool) -> int:
        """Open the file that the caller means, with O_PATH; an empty path means the descriptor itself."""
        flags = os.O_PATH | os.O_CLOEXEC
        start = "cwd" if directory == _AT_FDCWD else f"fd/{directory}"
        try:
            anchor = os.open(f"/proc/{self.pid}/{start}", flags)
        except FileNotFoundError as error:
            raise OSError(errno.EBADF, "not open") from error
        self.check_waiting()
        if not path:
            return anchor
        try:
            for name in (b"/proc/self/", b"/proc/thread-self/"):
                if path.startswith(name):
                    path = b"/proc/%d/" % self.pid + path[len(name) :]
            return os.open(path, flags if follow else flags | os.O_NOFOLLOW, dir_fd=anchor)
        finally:
            os.close(anchor)

    def copy_socket(self) -> int:
        """Return a copy of the socket that the first argument names."""
        with open(f"/proc/{self.pid}/status", "rb") as file:
            process = next(int(line.split()[1]) for line in file if line.startswith(b"Tgid:"))
        leader = os.pidfd_open(process)
        try:
            self.check_waiting()
            return raw_calls.copy_descriptor(leader, self.integer_at(0))
        finally:
            os.close(leader)

    def check_waiting(self) -> None:
        """Raise OSError when the caller is gone: its pid may belong to another process by now."""
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", self.id))

    def answer(self, error: int, flags: int = 0) -> None:
        """Let the caller continue: with an error, with success, or with the call itself (_CONTINUE)."""
        try:
            fcntl.ioctl(self._listener, _SEND, bytearray(_RESPONSE.pack(self.id, 0, -error, flags)))
        except FileNotFoundError:
            return  # killed while it waited


class CallGuard:
    """Answers the calls of one trial until the supervisor exits."""

    def __init__(self, order: SupervisorOrder, descendants: Descendants) -> None:
        self.is_closing = False
        """When true, no new process may start."""
        self._order = order
        self._descendants = descendants
        self._threads = 1  # an upper bound
        self._reachable = (*order.launch_paths, *order.writable_paths)
        self._acts: dict[str, Callable[[_Call], None]] = {
            "chmod": lambda call: self._chmod(call, _AT_FDCWD, 0, 1, 0),
            "fchmod": lambda call: self._chmod(call, call.integer_at(0), None, 1, 0),
            "fchmodat": lambda call: self._chmod(call, call.integer_at(0), 1, 2, 0),
            "fchmodat2": lambda call: self._chmod(call, call.integer_at(0), 1, 2, call.integer_at(3)),
            "utimensat": self._utimensat,
            "connect": self._connect,
        }

    def serve(self, listener: int) -> None:
        """Answer calls for ever; to be run in a thread that has the user of the trial."""
        try:
            while True:
                notification = bytearray(_NOTIFICATION.size)
                try:
                    fcntl.ioctl(listener, _RECEIVE, notification)
                except FileNotFoundError:
                    continue  # the caller has just been killed
                self._decide(_Call(listener, notification))
        finally:
            # Without a listener every such call fails; with one that does not answer it would wait for ever.
            os.close(listener)

    def _decide(self, call: _Call) -> None:
        name = self._order.notify_calls[call.number]
        if name in ("clone", "fork", "vfork"):
            if self._has_room():
                call.answer(0, _CONTINUE)
            else:
                call.answer(errno.EAGAIN)
        elif name == "connect":
            # A peer that does not accept keeps this waiting. Callers are bounded, and so are these threads.
            threading.Thread(target=self._act, args=(name, call), daemon=True).start()
        else:
            self._act(name, call)

    def _act(self, name: str, call: _Call) -> None:
        error = 0
        try:
            self._acts[name](call)
        except OSError as failure:
            error = failure.errno or errno.EPERM
        except (ValueError, StopIteration):
            error = errno.EINVAL
        call.answer(error)

    def _has_room(self) -> bool:
        """Say whether one more process or thread stays within the bound; recounts only when it might not."""
        if self.is_closing:
            return False
        if self._threads >= self._order.processes:
            time.sleep(_SETTLING_SECONDS)
            self._threads = self._descendants.thread_count()
        if self._threads >= self._order.processes:
            return False
        self._threads += 1
        return True

    def _chmod(self, call: _Call, directory: int, path: int | None, mode: int, flags: int) -> None:
        if call.arguments[mode] & _SET_ID:
            raise OSError(errno.EPERM, "others would become the owner")
        text = b"" if path is None else call.path_at(path, flags)
        file = call.open_file(directory, text, follow=not flags & _AT_SYMLINK_NOFOLLOW)
        try:
            _refuse_outside(file, self._order.writable_paths, errno.EPERM)
            os.chmod(f"/proc/self/fd/{file}", call.arguments[mode] & 0o1777)
        finally:
            os.close(file)

    def _utimensat(self, call: _Call) -> None:
        times = call.memory_at(2, _TIMES_BYTES) if call.arguments[2] else None
        flags = call.integer_at(3)
        text = call.path_at(1, flags) if call.arguments[1] else b""
        file = call.open_file(call.integer_at(0), text, follow=not flags & _AT_SYMLINK_NOFOLLOW)
        try:
            _refuse_outside(file, self._order.writable_paths, errno.EPERM)
            raw_calls.set_times(f"/proc/self/fd/{file}", times)
        finally:
            os.close(file)

    def _connect(self, call: _Call) -> None:
        address = call.memory_at(1, min(call.arguments[2] & 0xFFFFFFFF, _ADDRESS_BYTES))
        socket = call.copy_socket()
        try:
            if int.from_bytes(address[:2], "little") == _AF_UNIX:
                self._connect_by_path(call, socket, address[2:])
            elif self._order.network:
                raw_calls.connect(socket, address)
            else:
                raise OSError(errno.EACCES, "no network")
        finally:
            os.close(socket)

    def _connect_by_path(self, call: _Call, socket: int, name: bytes) -> None:
        path = name.partition(b"\0")[0]
        if not path:
            raise OSError(errno.ECONNREFUSED, "an abstract name")
        file = call.open_file(_AT_FDCWD, path, follow=True)
        try:
            _refuse_outside(file, self._reachable, errno.EACCES)
            raw_calls.connect(socket, struct.pack("=H", _AF_UNIX) + b"/proc/self/fd/%d\0" % file)
        finally:
            os.close(file)


def _refuse_outside(file: int, roots: tuple[str, ...], error: int) -> None:
    """Raise OSError unless the file is one of the roots or below one.

    The name comes from the kernel and contains no links. A file from outside cannot have a name inside either,
    because Landlock forbids the trial to link or move one there.
    """
    name = os.readlink(f"/proc/self/fd/{file}")
    if not any(name == root or name.startswith(f"{root}/") for root in roots):
        raise OSError(error, "outside")


class Descendants:
    """The descendants of this process, which inherits their orphans."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        """Exit statuses of the children reaped so far, by pid."""

    def reap(self) -> bool:
        """Reap the dead and keep their statuses; false when no child is left."""
        try:
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                self.statuses[dead[0]] = dead[1]
        except ChildProcessError:
            return False
        return True

    def kill(self) -> None:
        """Kill all descendants and return when they are reaped."""
        while self.reap():
            for pid in self._descendants():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            # A process forked in the meantime has lost its parent by then, and the next pass finds it.
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            self.statuses[pid] = status

    def thread_count(self) -> int:
        """Count the threads of all descendants."""
        self.reap()
        return sum(len(_entries(f"/proc/{pid}/task")) for pid in self._descendants())

    def _descendants(self) -> list[int]:
        pids = list(_children(os.getpid()))
        for pid in pids:
            pids += _children(pid)
        return pids


def _children(pid: int) -> Iterator[int]:
    for task in _entries(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                words = file.read().split()
        except OSError:
            continue
        yield from map(int, words)


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
