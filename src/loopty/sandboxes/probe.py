"""What does a sandbox really keep a trial from? Found out by trying, once, from inside."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loopty.domain.launch import Bounds, Exit, Gap, Launch, Mount, Protection, Sandbox, SandboxError, Stop
from loopty.sandboxes.trial_user import trial_owner

_BOUNDS = Bounds(seconds=60, memory_mb=512, processes=12, output_mb=1, disk_mb=3)
_HERE = Path(__file__).resolve().parent
_INSIDE = "/loopty/probe"
_SECRET = "loopty-secret"
_DECOY = "loopty-decoy"
_UNTOUCHED = "untouched"
_MODE = 0o666
_LIMITED = b"open files 17 17"

# A mounted interpreter may not run in a container, whose own may; some images have none.
_RUN = (
    'for python in "$0" python3; do "$python" -I -S probe_script.py "$1" && exit 0; done; '
    'exec sh probe_script.sh "$1"'
)

_MEANINGS = {
    "read": (Protection.READ, "a file outside was read"),
    "write": (Protection.WRITE, "a file outside was written"),
    "mode": (Protection.WRITE, "the mode of a file outside was changed"),
    "tcp": (Protection.NETWORK, "a port of the host was reached"),
    "datagram": (Protection.NETWORK, "a datagram reached the host"),
    "path": (Protection.NETWORK, "a socket of the host was reached by its path"),
    "abstract": (Protection.NETWORK, "an abstract socket of the host was reached"),
    "hypervisor": (Protection.NETWORK, "the hypervisor was reached (AF_VSOCK)"),
    "see": (Protection.OTHERS, "the command line of another process was seen"),
    "limit": (Protection.OTHERS, "the limits of another process were changed"),
    "signal": (Protection.OTHERS, "another process was signalled"),
    "daemon": (Protection.SURVIVORS, "a daemon was alive afterwards"),
    "forks": (Protection.FORKS, "there were more processes at once than the bound"),
    "disk": (Protection.DISK, "more was written than the bound"),
    "ptrace": (Protection.CALLS, "tracing was not refused"),
    "namespace": (Protection.CALLS, "a user namespace was made"),
    "mount": (Protection.CALLS, "mounting was not refused"),
    "io_uring": (Protection.CALLS, "io_uring was not refused"),
    "keys": (Protection.CALLS, "the kernel's keys were not refused"),
    "userfaultfd": (Protection.CALLS, "userfaultfd was not refused"),
}
# For these the word of the attempt does not count: what is seen from outside does.
_SEEN_FROM_OUTSIDE = {"write", "mode", "datagram", "limit", "signal", "daemon"}


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What came of trying a sandbox: `problem` is empty when it works, else the reason and the remedy."""

    name: str
    problem: str
    gaps: tuple[Gap, ...]
    """What the back end says that it does not give, and what it says to give but did not."""
    tried: tuple[Protection, ...] = ()
    """The protections that were put to the test; others are as the back end says."""

    @property
    def ok(self) -> bool:
        """Whether trials can run in this sandbox."""
        return not self.problem

    def gaps_in(self, required: Iterable[Protection]) -> tuple[Gap, ...]:
        """The gaps in what is required."""
        wanted = set(required)
        return tuple(gap for gap in self.gaps if gap.protection in wanted)


async def probe(sandbox: Sandbox) -> ProbeReport:
    """Run one trial that tries to break out, in an arena made for it, and look at what it did."""
    with _ProbeArena() as arena:
        try:
            ended = await sandbox.run(arena.launch, asyncio.Event())
        except SandboxError as error:
            return ProbeReport(sandbox.name, str(error), sandbox.gaps)
        said = [line.split() for line in arena.launch.stdout.read_text(errors="replace").splitlines()]
        tried = {words[1] for words in said if words[:1] == ["tried"]} & _MEANINGS.keys()
        if not tried or not _is_expected(ended):
            return ProbeReport(sandbox.name, _problem(ended, arena.launch.stderr), sandbox.gaps)
        done = {words[1] for words in said if words[:1] == ["did"]} & _MEANINGS.keys() - _SEEN_FROM_OUTSIDE
        done |= arena.traces() & tried
    declared = {gap.protection for gap in sandbox.gaps}
    observed = [_MEANINGS[name] for name in _MEANINGS if name in done]
    return ProbeReport(
        sandbox.name,
        "",
        (*sandbox.gaps, *(Gap(kind, f"tried: {words}") for kind, words in observed if kind not in declared)),
        tuple(dict.fromkeys(kind for name, (kind, _) in _MEANINGS.items() if name in tried)),
    )


def _is_expected(ended: Exit) -> bool:
    # Writing too much is the last attempt, and may end the trial.
    return ended.stop is Stop.DISK or (ended.stop is None and ended.code == 0)


def _problem(ended: Exit, stderr: Path) -> str:
    lines = stderr.read_text(errors="replace").strip().splitlines()
    how = f"was stopped ({ended.stop})" if ended.stop else f"ended with {ended.code}"
    return f"a command that tries what is allowed {how}" + (f": {lines[-1]}" if lines else "")


def bind_same_port() -> tuple[socket.socket, socket.socket]:
    """A listener for streams and one for datagrams at the same port: where one is free, the other may not be."""
    while True:
        streams = socket.create_server(("127.0.0.1", 0))
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            datagrams.bind(streams.getsockname())
        except OSError as error:
            streams.close()
            datagrams.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            datagrams.setblocking(False)
            return streams, datagrams


class _ProbeArena:
    """Things of the host that a trial must not get at, although its user could."""

    def __init__(self) -> None:
        self._resources = contextlib.ExitStack()
        self._token = f"loopty-probe-{secrets.token_hex(8)}"

    def __enter__(self) -> _ProbeArena:
        with contextlib.ExitStack() as made:
            self._root = Path(made.enter_context(tempfile.TemporaryDirectory(prefix="loopty-probe-"))).resolve()
            self._root.chmod(0o755)
            self._tcp, self._datagrams = map(made.enter_context, bind_same_port())
            self._listen(made)
            self._decoy = made.enter_context(_start_decoy())
            made.callback(self._decoy.kill)
            self._write_files()
            made.callback(self._kill_daemon)
            self._resources = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def launch(self) -> Launch:
        """The attempts, as a trial."""
        python, mounts = _interpreter()
        return Launch(
            argv=("/bin/sh", "-c", _RUN, python, self._token),
            cwd=_INSIDE,
            bounds=_BOUNDS,
            stdout=self._root / "stdout",
            stderr=self._root / "stderr",
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
            mounts=(Mount(self._root / "shown", _INSIDE), *mounts),
        )

    def traces(self) -> set[str]:
        """Which attempts have left traces outside."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._decoy.wait(0.01)  # a signal takes a moment
        signs = {
            "write": self._outside.read_text() != _UNTOUCHED,
            "mode": self._outside.stat().st_mode & 0o777 != _MODE,
            "datagram": self._has_received(),
            "limit": _LIMITED in b" ".join(_content(Path(f"/proc/{self._decoy.pid}/limits")).split()),
            "signal": self._decoy.returncode is not None,
            "daemon": bool(self._daemons()),
        }
        return {name for name, is_there in signs.items() if is_there}

    @property
    def _outside(self) -> Path:
        return self._root / "outside"

    def _listen(self, stack: contextlib.ExitStack) -> None:
        for name in (str(self._root / "socket"), f"\0{self._token}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(name)
            server.listen()
        (self._root / "socket").chmod(0o777)

    def _write_files(self) -> None:
        (self._root / "secret").write_text(_SECRET)
        self._outside.write_text(_UNTOUCHED)
        for path in (self._root / "secret", self._outside):
            path.chmod(_MODE)
            if (owner := trial_owner()) is not None:
                os.chown(path, *owner)
        facts = {
            "secret": str(self._root / "secret"),
            "outside": str(self._outside),
            "port": self._tcp.getsockname()[1],
            "socket": str(self._root / "socket"),
            "abstract": self._token,
            "decoy": self._decoy.pid,
            "processes": _BOUNDS.processes,
            "disk_mb": _BOUNDS.disk_mb,
        }
        shown = self._root / "shown"
        shown.mkdir()
        for name in ("probe_script.py", "probe_script.sh"):
            shutil.copyfile(_HERE / name, shown / name)
        (shown / "facts.json").write_text(json.dumps(facts))
        (shown / "facts.sh").write_text("".join(f"{key}={shlex.quote(str(facts[key]))}\n" for key in facts))
        for path in (shown, *shown.iterdir()):
            path.chmod(0o755)

    def _has_received(self) -> bool:
        try:
            return bool(self._datagrams.recv(10))
        except BlockingIOError:
            return False

    def _daemons(self) -> list[int]:
        return [int(path.parent.name) for path in _command_lines() if self._token.encode() in _content(path)]

    def _kill_daemon(self) -> None:
        for pid in self._daemons():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _start_decoy() -> subprocess.Popen[bytes]:
    owner = trial_owner()
    uid, gid = owner if owner is not None else (None, None)
    # A shell that waits for a word: it is everywhere, whatever the search path.
    return subprocess.Popen(
        [_DECOY, "-c", "read word"],
        executable="/bin/sh",
        stdin=subprocess.PIPE,
        user=uid,
        group=gid,
        extra_groups=None if owner is None else (),
        cwd="/",
    )


def _interpreter() -> tuple[str, tuple[Mount, ...]]:
    """An interpreter that the trial can start, and what it must be shown for it."""
    if Path("/usr/bin/python3").exists():
        return "/usr/bin/python3", ()
    prefix = Path(sys.base_prefix).resolve()
    return f"{prefix}/bin/python3", (Mount(prefix, str(prefix)),)


def _command_lines() -> Iterator[Path]:
    return Path("/proc").glob("[0-9]*/cmdline")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
