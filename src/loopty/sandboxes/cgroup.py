"""A cgroup for one trial: the kernel counts its memory, and kills trials first when memory is short."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Bounds
from loopty.kit.records import Record

UNCOUNTED_MEMORY = (
    "memory that no process shows (shared pages that it has released, the buffers of sockets) is not counted: "
    "this user cannot create cgroups here"
)
"""The gap in a sandbox that cannot create cgroups."""
_UNBOUNDED = "max"
_FREEZE = "cgroup.freeze"
_FREEZER = "candidate"
_FREEZING_SECONDS = 5.0
_FREEZING_PAUSE = 0.0001
_REMOVING_SECONDS = 0.1
_MAX_BYTES = 1 << 14
_NAME = re.compile(r"loopty-[0-9a-f]{16}")
"""Random, because a trial can read the name of its group: nothing about loopty or the trial is in it."""
_SMALL = Bounds(seconds=1, memory_mb=16, processes=1, output_mb=1, disk_mb=1)


class Cgroup:
    """A new, empty group with bounds of its own. The code that creates one removes it."""

    counts_ended = True

    def __init__(self, folder: Path, lock: int | None = None) -> None:
        """`lock`: the descriptor by which this process owns the group."""
        self._folder = folder
        self._lock = lock
        self._is_of_first_version = False
        """Of the kernel's interface."""
        self._cpu_at_removal: float | None = None

    @classmethod
    def create(cls, bounds: Bounds) -> Cgroup | None:
        """Create a group with these bounds; None where this process cannot create any."""
        if (parent := _parent()) is None:
            return None
        try:
            group = _make_group(parent.folder)
        except OSError:
            return None
        group._is_of_first_version = parent.version == 1
        try:
            for name, value in parent.settings(bounds).items():
                with contextlib.suppress(FileNotFoundError):
                    group._write(name, value)
        except OSError:
            group.remove()
            return None
        return group

    @classmethod
    def create_freezer(cls, outer: Cgroup | None) -> Cgroup | None:
        """Create a group that can be frozen, inside the outer one where that can; None where there is no such.

        Freezing needs the second version of the kernel's interface, but none of its controllers. The processes
        around a trial stay in the outer group: they must be able to end it.
        """
        try:
            if outer and (outer._folder / _FREEZE).exists():
                group = cls(outer._folder / _FREEZER)
                group._folder.mkdir()
            elif (parent := _freezer_parent()) is not None:
                group = _make_group(parent)
            else:
                return None
        except OSError:
            return None
        if not (group._folder / _FREEZE).exists():
            group.remove()
            return None
        return group

    def freeze(self) -> None:
        """Stop every process of the group and return when none runs. Raises OSError when that takes too long."""
        self._write(_FREEZE, "1")
        deadline = time.monotonic() + _FREEZING_SECONDS
        while "frozen 1" not in self._read("cgroup.events"):
            if time.monotonic() > deadline:
                raise TimeoutError("the processes of a candidate do not stop")
            time.sleep(_FREEZING_PAUSE)

    def thaw(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._write(_FREEZE, "0")

    def processes(self) -> list[int]:
        """Return the numbers of its processes, as this process sees them."""
        return [int(line) for line in self._read("cgroup.procs").split()]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that processes of the group used since its creation, also after its removal."""
        if self._cpu_at_removal is not None:
            return self._cpu_at_removal
        return self._read_cpu_seconds()

    def _read_cpu_seconds(self) -> float:
        lines = self._read("cpu.stat").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("usage_usec ")) / 1e6

    def admit(self, *pids: int) -> None:
        """Put processes into the group, and with them all that they start from now on; dead ones are skipped.

        Blocks for about 10 ms unless a process of the machine has changed its group just before: the kernel waits
        until all processors have noticed.
        """
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                self._write("cgroup.procs", str(pid))

    def open_processes(self) -> int:
        """Open a descriptor for any process to put itself into the group: the kernel asks who has opened it."""
        return os.open(f"{self._folder}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def _write(self, name: str, value: str) -> None:
        descriptor = os.open(f"{self._folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode("ascii"))
        finally:
            os.close(descriptor)

    def _read(self, name: str) -> str:
        descriptor = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _MAX_BYTES).decode("ascii")
        finally:
            os.close(descriptor)

    def has_run_out_of_memory(self) -> bool:
        """Say whether the kernel killed a process of the group for its memory."""
        name = "memory.oom_control" if self._is_of_first_version else "memory.events"
        try:
            words = (line.split() for line in self._read(name).splitlines())
        except OSError:
            return False
        return any(word == "oom_kill" and count != "0" for word, count in words)

    def remove(self) -> None:
        """Kill what is left in the group, which should be nothing, and remove it; does nothing when it is gone."""
        self._remove_folder()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _remove_folder(self) -> None:
        deadline = time.monotonic() + _REMOVING_SECONDS
        while time.monotonic() < deadline:
            if not self._is_of_first_version:  # which does not count it
                with contextlib.suppress(OSError):
                    self._cpu_at_removal = self._read_cpu_seconds()
            with contextlib.suppress(OSError):
                os.rmdir(self._folder)  # noqa: PTH106 - at the end of each trial
                return
            if not self._folder.exists():
                return
            # A dead process takes a moment to leave the group.
            with contextlib.suppress(OSError):
                for pid in (self._folder / "cgroup.procs").read_text(encoding="ascii").split():
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.001)


@functools.cache
def can_make_cgroups() -> bool:
    """Say whether `Cgroup.create` works here; found out by trying."""
    if (group := Cgroup.create(_SMALL)) is None:
        return False
    group.remove()
    return True


class _CgroupParent(Record):
    """A directory in which groups can be created, and its version of the kernel's interface."""

    folder: Path
    version: int

    def settings(self, bounds: Bounds) -> dict[str, str]:
        """Tell what to write to which file, in this order; files that do not exist are skipped."""
        memory = str(bounds.memory_mb << 20)
        if self.version == 1:
            return {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory}
        # More than the bound, which is enforced by other means: Landlock's supervisor is in this group, too, with
        # a thread for each call that it answers.
        processes = str(2 * bounds.processes + 8)
        return {"memory.max": memory, "memory.swap.max": "0", "pids.max": processes}


@functools.cache
def _parent() -> _CgroupParent | None:
    """Find where this process can create groups, or None; removes what dead processes left there."""
    with contextlib.suppress(OSError, ValueError):
        for parent in _possible_parents():
            if _may_create_in(parent.folder):
                _remove_abandoned(parent.folder)
                return parent
    return None


@functools.cache
def _freezer_parent() -> Path | None:
    """Find where this process can create groups that can be frozen, or None."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        # Version 2 alone: the freezer of version 1 holds back SIGKILL.
        path = next(line[len("0::") :] for line in lines if line.startswith("0::"))
        folder = _folder_of("cgroup2", "", path)
        if _may_create_in(folder):
            _remove_abandoned(folder)
            return folder
    return None


def _may_create_in(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _make_group(parent: Path) -> Cgroup:
    """Create a group that this process owns until it removes the group or dies. Raises OSError."""
    while True:
        folder = parent / _new_name()
        folder.mkdir()
        # In the moment before it is locked, another process may take it for an abandoned one.
        if (lock := _lock_of(folder)) is not None:
            return Cgroup(folder, lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the groups whose owners are dead: nobody holds their locks."""
    for folder in parent.iterdir():
        if _NAME.fullmatch(folder.name) and (lock := _lock_of(folder)) is not None:
            Cgroup(folder / _FREEZER).remove()
            Cgroup(folder, lock).remove()


def _lock_of(folder: Path) -> int | None:
    """Return a descriptor that locks the group until it is closed; None if the group is another's, or gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.exists():
            return descriptor
    os.close(descriptor)
    return None


def _possible_parents() -> Iterator[_CgroupParent]:
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield _CgroupParent(_folder_of("cgroup", "memory", path), 1)
        elif not controllers:
            own = _folder_of("cgroup2", "", path)
            # A group that has processes of its own can have no children, unless it is the topmost.
            if _has_memory_controller(own):
                yield _CgroupParent(own, 2)
            # A sibling of our own group would escape the bounds on ours.
            elif (
                _has_memory_controller(own.parent)
                and (own / "memory.max").read_text(encoding="ascii").strip() == _UNBOUNDED
            ):
                yield _CgroupParent(own.parent, 2)


def _has_memory_controller(folder: Path) -> bool:
    switch = folder / "cgroup.subtree_control"
    return switch.exists() and "memory" in switch.read_text(encoding="ascii").split()


def _folder_of(kind: str, controller: str, path: str) -> Path:
    """Find where the group at that path is mounted. Raises ValueError when it is not mounted."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        place, _, system = line.partition(" - ")
        _, _, _, root, point, *_ = place.split()
        mounted_kind, _, options = system.split(" ", 2)
        if mounted_kind == kind and (not controller or controller in options.split(",")):
            # In a container the mount may start further down than the paths do.
            return Path(point) / PurePosixPath(path).relative_to(root)
    raise ValueError(path)


def _new_name() -> str:
    """Make a name that says nothing: a trial may see the name of its group."""
    return f"loopty-{os.urandom(8).hex()}"


_OOM_SCORE = Path("/proc/self/oom_score_adj")
_TRIAL_OOM_SCORE = "500"


@contextlib.contextmanager
def high_oom_score() -> Iterator[None]:
    """Give processes started in this context a high out-of-memory score: the kernel kills them first."""
    # We change our own score: every process may raise it and lower it again to its former value, while the score
    # of a process in another user namespace may be out of reach.
    before = _OOM_SCORE.read_text(encoding="ascii")
    if int(before) >= int(_TRIAL_OOM_SCORE):
        yield
        return
    _OOM_SCORE.write_text(_TRIAL_OOM_SCORE, encoding="ascii")
    try:
        yield
    finally:
        _OOM_SCORE.write_text(before, encoding="ascii")
