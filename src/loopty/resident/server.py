"""The resident process: listens, forks for each connection, and ends when it is idle, replaced or asked to."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import selectors
import signal
import socket
import sys
import time

from loopty.resident.client import peer_of
from loopty.resident.kept_processes import KeptProcess, KeptProcesses, peek_kind
from loopty.resident.mailbox import POLL_SECONDS, Mailbox
from loopty.resident.meeting_place import MeetingPlace
from loopty.resident.request import SIGNAL
from loopty.resident.source_watch import SourceWatch
from loopty.resident.surroundings import surroundings
from loopty.resident.verb_process import ASKED_TO_STOP, ResidentServices, serve_connections, serve_letter

IDLE_SECONDS = 900.0
_MOST_VERBS = 64
_BACKLOG = 128


class Server:
    """Serves one repository, as long as `start` took its lock."""

    def __init__(
        self, place: MeetingPlace, services: ResidentServices, idle_seconds: float, mailbox: Mailbox | None = None
    ) -> None:
        self.place, self._services, self._idle_seconds = place, services, idle_seconds
        self._surroundings = surroundings()
        self._source = SourceWatch()
        self._kept = KeptProcesses()
        self._verbs: dict[int, socket.socket] = {}
        """The connections that are being served, by process."""
        self._mailbox = mailbox
        self._letters: dict[int, str] = {}
        """The letters that are being answered, by process."""
        self._is_ending = False
        self._last: socket.socket | None = None

    def serve(self, listener: socket.socket) -> None:
        """Serve until it is idle, its source changed, or somebody asked it to end."""
        reader, writer = socket.socketpair()
        for end in (reader, writer):
            end.setblocking(False)
        signal.set_wakeup_fd(writer.fileno())
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self._source.start()
        with self._kept.selector as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(reader, selectors.EVENT_READ)
            idle_since = time.monotonic()
            while not self._is_ending:
                is_busy = bool(self._verbs or self._letters)
                waiting = None if is_busy else max(0.0, idle_since + self._idle_seconds - time.monotonic())
                is_idle = waiting == 0.0
                if self._mailbox:
                    waiting = POLL_SECONDS if waiting is None else min(waiting, POLL_SECONDS)
                keys = [key for key, _ in selector.select(waiting)]
                ready = [key.fileobj for key in keys if key.data is None]
                for process in [key.data for key in keys if key.data is not None]:
                    self._hear(process)
                if reader in ready and signal.SIGTERM in reader.recv(4096):
                    return
                self._reap()
                if listener in ready:
                    self._accept(listener)
                    idle_since = time.monotonic()
                elif self._mailbox and self._serve_letters(self._mailbox, listener):
                    idle_since = time.monotonic()
                elif not keys and not is_busy and (is_idle or not self._mailbox):
                    return

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if self._source.has_changed():
            self._end_after(connection)  # this client runs its verb itself; the next process has the new source
            return
        if len(self._verbs) >= _MOST_VERBS or peer_of(connection) != os.getuid():
            connection.close()
            return
        shared = self._services.prepare()
        kind = peek_kind(connection)
        if kind is not None:  # a process that has what verbs shared before is not used again
            kind += b"\0%r" % [os.fstat(number).st_ino for number in shared]
        if kept := self._kept.hand_over(kind, connection):
            self._verbs[kept] = connection
            return
        ours, theirs = socket.socketpair()
        if verb := os.fork():
            theirs.close()
            self._kept.add(verb, ours, kind)
            self._verbs[verb] = connection
            return
        git_dir = os.fsencode(self.place.git_dir)
        serve_connections(connection, git_dir, self._surroundings, self._services, shared, theirs)

    def _hear(self, process: KeptProcess) -> None:
        """A process has done its work and waits for more, or has ended."""
        if not process.says_it_rests():
            self._kept.let_go(process)
            return
        if connection := self._verbs.pop(process.number, None):
            connection.close()
        self._kept.rest(process)

    def _serve_letters(self, mailbox: Mailbox, listener: socket.socket) -> bool:
        """Answer the letters that wait, each in a process of its own; False where there is none."""
        names = [name for name in mailbox.letters() if name not in self._letters.values()]
        for name in names[: max(_MOST_VERBS - len(self._verbs) - len(self._letters), 0)]:
            shared = self._services.prepare()
            if process := os.fork():
                self._letters[process] = name
                continue
            listener.close()
            serve_letter(mailbox, name, self._services, shared)
        return bool(names)

    def _end_after(self, connection: socket.socket) -> None:
        """End; this connection closes last, so that its client finds the lock free."""
        self._is_ending, self._last = True, connection

    def _reap(self) -> None:
        """Forget the verbs that have ended. One that was killed could not tell its client: this does."""
        for process in list(self._letters):
            if os.waitpid(process, os.WNOHANG)[0]:
                del self._letters[process]
        for verb in self._kept.numbers:
            ended, status = os.waitpid(verb, os.WNOHANG)
            if not ended:
                continue
            self._kept.forget(verb)
            if (connection := self._verbs.pop(verb, None)) is None:
                continue
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == ASKED_TO_STOP:
                self._end_after(connection)
                continue
            with connection, contextlib.suppress(OSError):
                if os.WIFSIGNALED(status):
                    connection.sendall(SIGNAL + b" %d\n" % os.WTERMSIG(status))


def start(
    place: MeetingPlace,
    services: ResidentServices,
    idle_seconds: float = IDLE_SECONDS,
    mailbox: Mailbox | None = None,
) -> bool:
    """Serve in the background, in a process that outlives this one; False where one serves already.

    Returns as soon as clients can connect. Raises OSError where the meeting place cannot be made.
    """
    os.makedirs(place.folder, mode=0o700, exist_ok=True)
    if not place.is_private():
        raise PermissionError(f"{place.folder} is a link, or others may enter it")
    lock = _take_lock(place)
    if lock is None:
        return False
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place.socket)  # of a process that was killed: nobody else holds the lock
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        before = os.umask(0o077)
        try:
            listener.bind(place.socket)
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        sys.stdout.flush()
        sys.stderr.flush()
        if first := os.fork():
            os.waitpid(first, 0)
            os.close(lock)
            return True
        # Twice, and with a session of its own: some hosts kill the descendants of what they started.
        os.setsid()
        if process := os.fork():
            os.pwrite(lock, b"%d\n" % process, 0)
            os._exit(0)
        _serve_to_the_end(Server(place, services, idle_seconds, mailbox), listener, lock)
    return True


def _serve_to_the_end(server: Server, listener: socket.socket, lock: int) -> None:
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        kept = {listener.fileno(), lock}
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2 and number not in kept:
                with contextlib.suppress(OSError):
                    os.close(number)
        os.chdir("/")
        os.environb.clear()  # nothing of the first client's environment reaches the verbs of others
        gc.collect()
        gc.freeze()
        server.serve(listener)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(server.place.socket)
        # The kernel closes the files of a process in no order that it promises.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os._exit(0)


def _take_lock(place: MeetingPlace) -> int | None:
    """The descriptor of the lock, or None where another process holds it."""
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    os.ftruncate(lock, 0)  # what a killed process left is not the number of the next one
    return lock


def process_number(place: MeetingPlace) -> int | None:
    """The number of the resident process that serves here, or None."""
    try:
        lock = os.open(place.lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.pread(lock, 32, 0).strip() or 0) or None
    else:
        return None
    finally:
        os.close(lock)
