"""How much memory and disk a process tree uses now."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopty.core.launch import Bounds, Stop

# An empty file still costs an inode: a block on most disks, about 1 KiB of kernel memory on a tmpfs.
_SMALLEST_FILE_BYTES = 4096
_TMPFS_INODE_BYTES = 1024

# No honest tree is that deep, and each level holds descriptors while it is walked.
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Footprint:
    """Where a tree's use shows: its root process, its memory file systems, its writable host paths."""

    root: int
    tmpfs: tuple[Path, ...]
    writable: tuple[Path, ...]

    def excess(self, bounds: Bounds) -> Stop | None:
        """The bound that is exceeded, or None."""
        pids = _tree(self.root)
        if _exceeds_memory(pids, sum(map(_tmpfs_bytes, self.tmpfs)), bounds.memory_mb << 20):
            return Stop.MEMORY
        if _exceeds_disk(pids, self.writable, bounds.disk_mb << 20):
            return Stop.DISK
        return None


def _tree(root: int) -> Sequence[int]:
    pids = {root: None}
    queue = [root]
    while queue:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{queue.pop()}/task").iterdir():
                with contextlib.suppress(OSError):
                    children = [int(word) for word in (task / "children").read_text().split()]
                    queue += [child for child in children if child not in pids]
                    pids.update(dict.fromkeys(children))
    return tuple(pids)


def _exceeds_memory(pids: Sequence[int], tmpfs: int, limit: int) -> bool:
    # The cheap sum counts a page once for each process that shares it, so it can only be too high.
    if tmpfs + sum(sum(_fields(pid, "status", "RssAnon", "RssShmem", "VmSwap")) for pid in pids) <= limit:
        return False
    anonymous = shared = 0
    for pid in pids:
        fields = _fields(pid, "smaps_rollup", "Pss_Anon", "Pss_Shmem", "SwapPss")
        # A process that hides its map (not dumpable) is taken at its cheap sum.
        private, mapped, swapped = (
            fields if any(fields) else _fields(pid, "status", "RssAnon", "RssShmem", "VmSwap")
        )
        anonymous += private + swapped
        shared += mapped
    # Mapped files of a tmpfs show up on both sides. The larger one never counts them twice.
    return anonymous + max(shared, tmpfs) > limit


def _fields(pid: int, file: str, *names: str) -> tuple[int, ...]:
    """Bytes by field of a /proc file; zeros for a process that is gone."""
    found = dict.fromkeys(names, 0)
    with (
        contextlib.suppress(OSError),
        Path(f"/proc/{pid}/{file}").open(encoding="ascii", errors="replace") as lines,
    ):
        for line in lines:
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) << 10
    return tuple(found.values())


def _tmpfs_bytes(path: Path) -> int:
    try:
        use = os.statvfs(path)
    except OSError:
        return 0
    return (use.f_blocks - use.f_bfree) * use.f_frsize + (use.f_files - use.f_ffree) * _TMPFS_INODE_BYTES


def _exceeds_disk(pids: Iterable[int], writable: Iterable[Path], limit: int) -> bool:
    seen: set[tuple[int, int]] = set()
    total = 0
    try:
        for status in _files(pids, writable):
            # Several names of one file cost its blocks once.
            if status.st_nlink != 1 and not stat.S_ISDIR(status.st_mode):
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
            total += max(status.st_blocks * 512, _SMALLEST_FILE_BYTES)
            if total > limit:
                return True
    except _UnmeasurableError:
        return True
    return False


def _files(pids: Iterable[int], writable: Iterable[Path]) -> Iterator[os.stat_result]:
    for path in writable:
        with contextlib.suppress(OSError):
            status = path.lstat()
            yield status
            if stat.S_ISDIR(status.st_mode):
                yield from _below(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), _DEEPEST)
    for pid in pids:
        yield from _unlinked(pid)


def _below(directory: int, depth: int) -> Iterator[os.stat_result]:
    """Everything below an open directory, which is closed. The tree may change while it is walked."""
    try:
        if depth == 0:
            raise _UnmeasurableError
        with os.scandir(directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        yield from _below(_opened(entry.name, directory), depth - 1)
    finally:
        os.close(directory)


def _opened(name: str, parent: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except PermissionError as error:
        # A trial of the same user can lock us out of a directory it goes on filling.
        raise _UnmeasurableError from error


def _unlinked(pid: int) -> Iterator[os.stat_result]:
    """Files that a process holds open but that have no name: they fill the disk unseen by any walk."""
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                status = descriptor.stat()
                if status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
                    yield status


class _UnmeasurableError(Exception):
    """The tree cannot be measured, which counts as too large."""
