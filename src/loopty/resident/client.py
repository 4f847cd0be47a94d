"""The client's side: hands the verb to the resident process, if there is one that may run it.

Every verb starts here, so it imports next to nothing: `socket` and `signal` would double the time of a bare start.
"""

import _signal
import _socket
import os
import sys

from loopty.resident.meeting_place import MeetingPlace, find_git_dir
from loopty.resident.request import ACCEPTED, EXIT, GO, SIGNAL, STOP, VERB, VerbRequest
from loopty.resident.surroundings import surroundings

_PATIENCE_SECONDS = 5.0
_PATIENCE_TO_END_SECONDS = 20.0
_FORWARDED = (
    *(_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM),
    *(_signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGWINCH),
)


def hand_over(args: list[str], start_missing: bool = False) -> int | None:
    """The exit status of the verb, run by the resident process; None where this process has to run it.

    Whatever is wrong with the other side before it has accepted, the answer is None. With `start_missing`, where
    there is no resident process, one is started for the verbs to come.
    """
    connection = connect()
    if connection is None:
        if start_missing and here():
            start_resident(os.getcwd())
        return None
    try:
        verb = _process_of_verb(connection, args)
        if verb is None:
            return None
        return _wait(connection, verb)
    finally:
        connection.close()


def connect() -> _socket.socket | None:
    """A connection to this user's resident process for the repository here, or None."""
    place = here()
    if place is None or not place.is_private():
        return None
    connection = None
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)  # refused in some sandboxes
        connection.settimeout(_PATIENCE_SECONDS)
        connection.connect(place.socket)
        if peer_of(connection) == os.getuid():
            return connection
    except OSError:
        pass
    if connection:
        connection.close()
    return None


def here() -> MeetingPlace | None:
    """The meeting place of the repository around the current directory, or None."""
    try:
        git_dir = find_git_dir(os.getcwd())
    except OSError:
        return None
    return MeetingPlace(git_dir) if git_dir else None


def peer_of(connection: _socket.socket) -> int:
    """The user at the other end."""
    raw = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[4:8], sys.byteorder)


def ask_to_stop() -> bool:
    """Ask the resident process to end; False where there is none. Verbs that it started go on."""
    connection, place = connect(), here()
    if connection is None or place is None:
        return False
    try:
        connection.sendall(VerbRequest(STOP, os.fsencode(place.git_dir), surroundings()).to_bytes())
        connection.settimeout(_PATIENCE_TO_END_SECONDS)
        while connection.recv(64):  # it closes the connection as it ends
            pass
    except OSError:
        return False
    finally:
        connection.close()
    return True


def start_resident(folder: str) -> int | None:
    """Start `loopty serve` for the repository around a folder: its process ends as soon as the other listens."""
    # With -P: nothing in the user's directory may stand in for a module of ours.
    command = [sys.executable, "-P", "-m", "loopty.cli.main", "serve", "--for", folder]
    streams = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        return os.posix_spawn(sys.executable, command, os.environ, file_actions=streams)
    except OSError:
        return None  # then the next verb runs by itself, too


def _process_of_verb(connection: _socket.socket, args: list[str]) -> int | None:
    """A descriptor of the process that will run the verb; None where nobody accepts it."""
    place = here()
    assert place
    umask = os.umask(0o077)
    os.umask(umask)
    variables = [name + b"=" + value for name, value in os.environb.items()]
    names = [os.fsencode(arg) for arg in args]
    request = VerbRequest(VERB, os.fsencode(place.git_dir), surroundings(), umask, names, variables)
    folder = None
    try:
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2, folder))
        body = request.to_bytes()
        sent = connection.sendmsg([body], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
        connection.sendall(body[sent:])
        answer, extra, _, _ = connection.recvmsg(1, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
        if answer != ACCEPTED or not extra:
            return None
        connection.settimeout(None)
        connection.sendall(GO)
    except OSError:  # one of the streams is closed, the other side is gone, or it takes too long
        return None
    finally:
        if folder is not None:
            os.close(folder)
    return int.from_bytes(extra[0][2][:4], sys.byteorder)


def _wait(connection: _socket.socket, verb: int) -> int:
    """Pass signals on until the verb ends, and return its exit status."""

    def forward(number: int, _frame: object) -> None:
        try:
            _signal.pidfd_send_signal(verb, number)
        except ProcessLookupError:  # it has just ended
            return

    def stop_both(_number: int, _frame: object) -> None:
        forward(_signal.SIGSTOP, None)
        os.kill(os.getpid(), _signal.SIGSTOP)
        forward(_signal.SIGCONT, None)

    for number in _FORWARDED:
        _signal.signal(number, forward)
    _signal.signal(_signal.SIGTSTP, stop_both)
    answer = b""
    try:
        while not answer.endswith(b"\n") and (part := connection.recv(64)):
            answer += part
    except OSError:
        pass
    kind, _, number = answer.partition(b" ")
    if kind == EXIT:
        return int(number)
    if kind == SIGNAL:
        if int(number) in (*_FORWARDED, _signal.SIGPIPE):
            _signal.signal(int(number), _signal.SIG_DFL)
        os.kill(os.getpid(), int(number))  # as the shell would have seen it
    sys.stderr.write("loopty: the process that ran this verb was killed; recorded events are safe\n")
    return 1
