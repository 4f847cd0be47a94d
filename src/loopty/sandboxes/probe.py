"""Probe a sandbox: one trial tries to break out, and the report says which protections hold."""

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
from collections.abc import Iterable, Iterator
from pathlib import Path

from loopty.domain.launch import Bounds, Exit, Gap, Launch, Mount, Protection, Sandbox, SandboxError, Stop
from loopty.kit.process import trial_owner
from loopty.kit.records import Record
from loopty.kit.temporary_folder import temporary_folder

_BOUNDS = Bounds(seconds=60, memory_mb=512, processes=12, output_mb=1, disk_mb=3)
_HERE = Path(__file__).resolve().parent
_INSIDE = "/loopty/probe"
_SECRET = "loopty-secret"
_DECOY = "loopty-decoy"
_UNTOUCHED = "untouched"
_MODE = 0o666
_LIMITED = b"open files 17 17"

# A mounted interpreter may fail in a container, where the image's own works; some images have no interpreter.
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
# For these the attempt's own report does not count: only traces outside do.
_SEEN_FROM_OUTSIDE = {"write", "mode", "datagram", "limit", "signal", "daemon"}


class ProbeReport(Record):
    """The result of probing a sandbox: `problem` is empty when it works, else the reason and the remedy."""

    name: str
    problem: str
    gaps: tuple[Gap, ...]
    """The gaps that the back end declares, and the protections that it claims but failed to give."""
    tried: tuple[Protection, ...] = ()
    """The protections that were tested; for the others the back end's own word stands."""

    @property
    def ok(self) -> bool:
        """Say whether trials can run in this sandbox."""
        return not self.problem

    def gaps_in(self, required: Iterable[Protection]) -> tuple[Gap, ...]:
        """Return the gaps in the required protections."""
        wanted = set(required)
        return tuple(gap for gap in self.gaps if gap.protection in wanted)


async def probe(sandbox: Sandbox) -> ProbeReport:
    """Run one trial that tries to break out of the sandbox, and report what it achieved."""
    with contextlib.ExitStack() as resources:
        try:
            arena = resources.enter_context(_ProbeArena())
        except PermissionError as error:
            problem = f"cannot be tried here: this process may make no sockets ({error.strerror})"
            return ProbeReport(sandbox.name, problem, sandbox.gaps)
        try:
            result = await sandbox.run(arena.launch, asyncio.Event())
        except SandboxError as error:
            return ProbeReport(sandbox.name, str(error), sandbox.gaps)
        lines = [line.split() for line in arena.launch.stdout.read_text(errors="replace").splitlines()]
        tried = {words[1] for words in lines if words[:1] == ["tried"]} & _MEANINGS.keys()
        if not tried or not _is_expected(result):
            return ProbeReport(sandbox.name, _problem(result, arena.launch.stderr), sandbox.gaps)
        done = {words[1] for words in lines if words[:1] == ["did"]} & _MEANINGS.keys() - _SEEN_FROM_OUTSIDE
        done |= arena.traces() & tried
    declared = {gap.protection for gap in sandbox.gaps}
    observed = [_MEANINGS[name] for name in _MEANINGS if name in done]
    return ProbeReport(
        sandbox.name,
        "",
        (*sandbox.gaps, *(Gap(kind, f"observed: {words}") for kind, words in observed if kind not in declared)),
        tuple(dict.fromkeys(kind for name, (kind, _) in _MEANINGS.items() if name in tried)),
    )


def _is_expected(result: Exit) -> bool:
    # The last attempt writes too much, which may end the trial.
    return result.stop is Stop.DISK or (result.stop is None and result.code == 0)


def _problem(result: Exit, stderr: Path) -> str:
    lines = stderr.read_text(errors="replace").strip().splitlines()
    how = f"was stopped ({result.stop})" if result.stop else f"ended with {result.code}"
    return f"the command of the probe {how}" + (f": {lines[-1]}" if lines else "")


def bind_same_port() -> tuple[socket.socket, socket.socket]:
    """Bind a stream and a datagram socket to one port: a port that is free for one may be taken for the other."""
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
    """Files, sockets and a process on the host that a trial must not reach, although its user could."""

    def __init__(self) -> None:
        self._resources = contextlib.ExitStack()
        self._token = f"loopty-probe-{secrets.token_hex(8)}"

    def __enter__(self) -> _ProbeArena:
        with contextlib.ExitStack() as stack:
            self._root = Path(stack.enter_context(temporary_folder("probe"))).resolve()
            self._root.chmod(0o755)
            self._tcp, self._datagrams = map(stack.enter_context, bind_same_port())
            self._listen(stack)
            self._decoy = stack.enter_context(_start_decoy())
            stack.callback(self._decoy.kill)
            self._write_files()
            stack.callback(self._kill_daemon)
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def launch(self) -> Launch:
        """Return the trial that makes the attempts."""
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
        """Return the attempts that have left traces outside."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._decoy.wait(0.01)  # a signal takes a moment
        checks = {
            "write": self._outside.read_text() != _UNTOUCHED,
            "mode": self._outside.stat().st_mode & 0o777 != _MODE,
            "datagram": self._has_received(),
            "limit": _LIMITED in b" ".join(_content(Path(f"/proc/{self._decoy.pid}/limits")).split()),
            "signal": self._decoy.returncode is not None,
            "daemon": bool(self._daemons()),
        }
        return {name for name, is_there in checks.items() if is_there}

    @property
    def _outside(self) -> Path:
        return self._root / "outside"

    def _listen(self, stack: contextlib.ExitStack) -> None:
        # Through the descriptor of its folder, because the path of a socket may have 107 bytes at most.
        folder = os.open(self._root, os.O_PATH | os.O_DIRECTORY)
        stack.callback(os.close, folder)
        for name in (f"/proc/self/fd/{folder}/socket", f"\0{self._token}"):
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
    # A shell that waits for input: every machine has one at this path.
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
    """Find an interpreter that the trial can start, and the mounts that it needs."""
    if Path("/usr/bin/python3").exists():
        return "/usr/bin/python3", ()
    prefix = Path(sys.base_prefix).resolve()
    return f"{prefix}/bin/python3", (Mount(prefix, str(prefix)),)


def _command_lines() -> Iterator[Path]:
    # Not by a pattern: pathlib fails on a process that ends while it looks.
    return (path / "cmdline" for path in Path("/proc").iterdir() if path.name.isdecimal())


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
