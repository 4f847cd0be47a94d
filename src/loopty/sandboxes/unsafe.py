"""No sandbox: run a launch as a plain process, for machines that have none and people who accept that."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from loopty.core.launch import Exit, Launch, SandboxError, Stop
from loopty.sandboxes.supervise import readable, supervise
from loopty.sandboxes.usage import Footprint
from loopty.sandboxes.view import refuse_mount_points_that_a_trial_could_move

_NOT_FOUND = 127
_DYING_SECONDS = 10.0
# Inherited by every descendant that does not take pains to lose it, also by one that has left the session.
_MARK = "LOOPTY_UNSAFE_TRIAL"


class Unsafe:
    """Runs with the rights of the present user: writable mounts are links to their sources, others copies."""

    name = "unsafe"
    unenforced = (
        "the whole file system can be read, and written where the user may write",
        "the network is open",
        "other processes of the user can be seen and signalled",
        "the number of processes is not bounded",
        "disk is bounded in the writable mounts and the scratch directories only",
        "a descendant that leaves its session and clears its environment survives",
    )

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; kill what can be found of the tree."""
        directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="loopty-unsafe-"))
        try:
            view = _View(directory, launch)
            await asyncio.to_thread(view.build)
            return await _ended(view, launch, cancel)
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True))


class _View:
    """A directory that stands for the root of the launch's file system."""

    def __init__(self, root: Path, launch: Launch) -> None:
        self._root = root
        self._launch = launch
        # A mount at its own place, as of a toolchain, is there already.
        self._mounts = [mount for mount in launch.mounts if str(mount.source) != mount.target]
        self._targets = (*(mount.target for mount in self._mounts), *launch.scratch)

    def build(self) -> None:
        """Lay out mounts and scratch directories in their order."""
        refuse_mount_points_that_a_trial_could_move(self._launch)
        try:
            for mount in self._mounts:
                place = self._cleared(mount.target)
                if mount.writable:
                    place.symlink_to(mount.source)
                elif mount.source.is_dir():
                    shutil.copytree(mount.source, place, symlinks=True)
                else:
                    shutil.copy2(mount.source, place, follow_symlinks=False)
            for target in self._launch.scratch:
                self._cleared(target).mkdir()
            (self._root / "home").mkdir(exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise SandboxError(f"cannot lay out the files of a trial: {error}") from error

    def path(self, text: str) -> str:
        """`text` with every path in it, or in its parts between colons, moved to where the view has it."""
        return ":".join(map(self._moved, text.split(":")))

    def environment(self) -> dict[str, str]:
        """The launch's variables, moved, and a home."""
        variables = {name: self.path(value) for name, value in self._launch.env.items()}
        return {"HOME": str(self._root / "home"), **variables}

    def footprint(self, pid: int) -> Footprint:
        """Where the use of the tree below `pid` shows."""
        writable = [mount.source for mount in self._launch.mounts if mount.writable]
        scratch = [self._place(target) for target in self._launch.scratch]
        return Footprint(pid, (), (*writable, *scratch))

    def _moved(self, text: str) -> str:
        inside = any(text == target or text.startswith(f"{target}/") for target in self._targets)
        return str(self._place(text)) if inside else text

    def _place(self, target: str) -> Path:
        return self._root / target.lstrip("/")

    def _cleared(self, target: str) -> Path:
        place = self._place(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        return place


async def _ended(view: _View, launch: Launch, cancel: asyncio.Event) -> Exit:
    started = time.monotonic()
    mark = secrets.token_hex(16)
    if not Path(view.path(launch.cwd)).is_dir():
        raise SandboxError(f"there is no directory {launch.cwd} to start in")
    try:
        process = _spawned(view, launch, mark)
    except OSError as error:
        launch.stdout.write_bytes(b"")
        launch.stderr.write_text(f"{launch.argv[0]}: {error.strerror}\n", encoding="utf-8")
        return Exit(_NOT_FOUND, time.monotonic() - started)
    with process, contextlib.closing(_Session(process, mark, view, launch)) as tree:
        stop = await supervise(tree, launch, cancel)
    code = process.returncode
    return Exit(code if code >= 0 else 128 - code, time.monotonic() - started, stop)


def _spawned(view: _View, launch: Launch, mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [view.path(word) for word in launch.argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env={**view.environment(), _MARK: mark},
        cwd=view.path(launch.cwd),
        start_new_session=True,
    )


class _Session:
    """A process tree known by its session and by a mark in its environment."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, view: _View, launch: Launch) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.pipes = (process.stdout.fileno(), process.stderr.fileno())
        self._process = process
        self._leader = os.pidfd_open(process.pid)
        self._mark = f"{_MARK}={mark}".encode()
        self._footprint = view.footprint(process.pid)
        self._bounds = launch.bounds

    def excess(self) -> Stop | None:
        return self._footprint.excess(self._bounds)

    def kill(self) -> None:
        for pid in self._alive():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    async def ended(self) -> None:
        await readable(self._leader)
        self.bury()

    def bury(self) -> None:
        if self._process.returncode is not None:
            return
        deadline = time.monotonic() + _DYING_SECONDS
        self.kill()
        # Again and again, because one that is being forked while we look is missed.
        while any(True for _ in self._alive()) and time.monotonic() < deadline:
            self.kill()
            time.sleep(0.001)
        self._process.wait()

    def close(self) -> None:
        os.close(self._leader)

    def _alive(self) -> Iterator[int]:
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal():
                with contextlib.suppress(OSError):
                    # State and session, the first and fourth after a name in parentheses that may hold anything.
                    fields = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()
                    dead = fields[0] in "ZX"
                    if not dead and (int(fields[3]) == self._process.pid or self._is_marked(directory)):
                        yield int(directory.name)

    def _is_marked(self, directory: Path) -> bool:
        return self._mark in (directory / "environ").read_bytes().split(b"\0")
