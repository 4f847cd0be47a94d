"""A cgroup for one trial: the kernel counts its memory, also what no process shows."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Bounds
from loopty.sandboxes.owned_names import fresh_name, is_abandoned

UNCOUNTED_MEMORY = (
    "memory that no process shows (shared pages that it has let go, the buffers of sockets) is not counted: "
    "this user may make no cgroup here"
)
"""What to say of a sandbox that has to do without."""
_UNBOUNDED = "max"
_REMOVING_SECONDS = 0.1
_SMALL = Bounds(seconds=1, memory_mb=16, processes=1, output_mb=1, disk_mb=1)


class Cgroup:
    """A group that is fresh and empty, with bounds of its own. Whoever makes one removes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def create(cls, bounds: Bounds) -> Cgroup | None:
        """One with these bounds, or None where this process may not make any."""
        if (ground := _parent()) is None:
            return None
        made = cls(ground.folder / fresh_name())
        try:
            made._folder.mkdir()
            for name, value in ground.settings(bounds).items():
                if (file := made._folder / name).exists():
                    file.write_text(value, encoding="ascii")
        except OSError:
            made.remove()
            return None
        return made

    def admit(self, *pids: int) -> None:
        """Put processes into it, and thereby all that they start from now on; no harm when some are gone.

        Blocks for about 10 ms where no process of the machine has changed its group just before: the kernel waits
        until all processors have noticed.
        """
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                (self._folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def has_run_out_of_memory(self) -> bool:
        """Whether the kernel had to kill for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                words = (line.split() for line in (self._folder / name).read_text(encoding="ascii").splitlines())
                return any(word == "oom_kill" and count != "0" for word, count in words)
        return False

    def remove(self) -> None:
        """Kill what is in it, which should be nothing, and remove it; no harm when it is gone."""
        deadline = time.monotonic() + _REMOVING_SECONDS
        while self._folder.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                return
            # A process needs a moment to be gone after it is dead.
            with contextlib.suppress(OSError):
                for pid in (self._folder / "cgroup.procs").read_text(encoding="ascii").split():
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.001)


@functools.cache
def can_make_cgroups() -> bool:
    """Whether `Cgroup.made` has something to give here; found out by trying."""
    if (made := Cgroup.create(_SMALL)) is None:
        return False
    made.remove()
    return True


@dataclass(frozen=True, slots=True)
class _CgroupParent:
    """A directory in which groups can be made, and which version of the kernel's interface it speaks."""

    folder: Path
    version: int

    def settings(self, bounds: Bounds) -> dict[str, str]:
        """What to write to which file, in this order; a file that is not there is no loss."""
        memory = str(bounds.memory_mb << 20)
        if self.version == 1:
            return {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory}
        # More than the bound, which is kept otherwise: in Landlock's sandbox its warden is in here, too, with a
        # thread for each call that it answers.
        processes = str(2 * bounds.processes + 8)
        return {"memory.max": memory, "memory.swap.max": "0", "pids.max": processes}


@functools.cache
def _parent() -> _CgroupParent | None:
    """Where this process may make groups, without what its predecessors have left there."""
    with contextlib.suppress(OSError, ValueError):
        for ground in _possible_parents():
            if os.access(ground.folder, os.W_OK) and os.access(ground.folder / "cgroup.procs", os.W_OK):
                for left in ground.folder.iterdir():
                    if is_abandoned(left.name):
                        Cgroup(left).remove()
                return ground
    return None


def _possible_parents() -> Iterator[_CgroupParent]:
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield _CgroupParent(_folder_of("cgroup", "memory", path), 1)
        elif not controllers:
            own = _folder_of("cgroup2", "", path)
            # Below a group that has processes of its own there can be none, unless it is the topmost.
            if _has_memory_controller(own):
                yield _CgroupParent(own, 2)
            # Beside our own group nothing would hold that bounds ours.
            elif (
                _has_memory_controller(own.parent)
                and (own / "memory.max").read_text(encoding="ascii").strip() == _UNBOUNDED
            ):
                yield _CgroupParent(own.parent, 2)


def _has_memory_controller(folder: Path) -> bool:
    switch = folder / "cgroup.subtree_control"
    return switch.exists() and "memory" in switch.read_text(encoding="ascii").split()


def _folder_of(kind: str, controller: str, path: str) -> Path:
    """Where a group of that path is mounted; ValueError when it is nowhere."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        place, _, system = line.partition(" - ")
        _, _, _, root, point, *_ = place.split()
        found, _, options = system.split(" ", 2)
        if found == kind and (not controller or controller in options.split(",")):
            # In a container the mount may begin further down than the paths do.
            return Path(point) / PurePosixPath(path).relative_to(root)
    raise ValueError(path)
