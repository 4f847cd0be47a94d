"""The memory and disk that a process tree uses now."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loopty.domain.launch import Bounds, Mount, Stop
from loopty.kit.records import Record

# An empty file still costs an inode: a block on most disks, about 1 KiB of kernel memory on a tmpfs.
_SMALLEST_FILE_BYTES = 4096
_TMPFS_INODE_BYTES = 1024

# No honest directory tree is deeper, and the walk holds a descriptor open for each level.
_MAX_DEPTH = 100

# An honest receiver takes a file that was sent to it within this time.
_DELIVERY_SECONDS = 4.0

_Threads = Mapping[int, Sequence[Path]]


class Footprint:
    """Measures a tree by its root process, its file systems in memory, and the host paths that it may write.

    The mounts also say where the tree sees those paths.
    """

    def __init__(self, root: int, tmpfs: tuple[Path, ...], writable: tuple[Mount, ...]) -> None:
        self._root = root
        self._tmpfs = tmpfs
        self._writable = writable
        self._sending_since: float | None = None

    def excess(self, bounds: Bounds) -> Stop | None:
        """Return the bound that the tree exceeds now, or None. To be called repeatedly."""
        tree = threads_of_tree(self._root)
        if _exceeds_memory(tree, sum(map(_tmpfs_bytes, self._tmpfs)), bounds.memory_mb << 20):
            return Stop.MEMORY
        try:
            if self._writable and self._exceeds_disk(tree, bounds.disk_mb << 20):
                return Stop.DISK
        except _UnmeasurableError:
            return Stop.DISK
        return None

    def _exceeds_disk(self, tree: _Threads, limit: int) -> bool:
        invisible = {(file.status.st_dev, file.status.st_ino): file for file in _invisible_files(tree, self._root)}
        if _files_exceed(
            limit,
            _files_below(mount.source for mount in self._writable),
            (file.status for file in invisible.values() if stat.S_ISREG(file.status.st_mode)),
            _files_behind_mappings(tree, tuple(f"{mount.target}/" for mount in self._writable), invisible.keys()),
        ):
            return True
        # A file in transit between two processes has neither a name nor an owner, so it must not stay in transit.
        if not any(file.carries_files() for file in invisible.values()):
            self._sending_since = None
            return False
        self._sending_since = self._sending_since or time.monotonic()
        return time.monotonic() - self._sending_since > _DELIVERY_SECONDS


def sees_files_between_processes() -> bool:
    """Say whether this kernel reports files in transit in a socket, as it does since Linux 5.7."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return b"scm_fds" in Path(f"/proc/self/fdinfo/{ours.fileno()}").read_bytes()


def threads_of_tree(root: int) -> _Threads:
    """Return a process and its descendants by pid, each with the /proc directories of its threads.

    None for -1, the kernel's number of a dead process: a signal to that number goes to all processes.
    """
    tree: dict[int, Sequence[Path]] = {}
    queue = [root] if root > 0 else []
    while queue:
        pid = queue.pop()
        tree[pid] = ()
        with contextlib.suppress(OSError):
            tree[pid] = tuple(Path(f"/proc/{pid}/task").iterdir())
        for thread in tree[pid]:
            with contextlib.suppress(OSError):
                children = [int(word) for word in (thread / "children").read_text().split()]
                queue += [child for child in children if child not in tree]
    return tree


def _exceeds_memory(tree: _Threads, tmpfs: int, limit: int) -> bool:
    # The cheap sum counts a shared page once per process, so it can only be too high.
    cheap = [_proc_fields(threads, "status", "RssAnon", "RssShmem", "VmSwap") for threads in tree.values()]
    if tmpfs + sum(map(sum, cheap)) <= limit:
        return False
    anonymous = shared = 0
    for threads, cheap_sum in zip(tree.values(), cheap, strict=True):
        fields = _proc_fields(threads, "smaps_rollup", "Pss_Anon", "Pss_Shmem", "SwapPss")
        # For a process that hides its map (not dumpable) we take the cheap sum.
        private, mapped, swapped = fields if any(fields) else cheap_sum
        anonymous += private + swapped
        shared += mapped
    # Mapped files of a tmpfs appear in both numbers; the larger of the two never counts them twice.
    return anonymous + max(shared, tmpfs) > limit


def _proc_fields(threads: Sequence[Path], file: str, *names: str) -> tuple[int, ...]:
    """Return fields of a process's /proc file in bytes; zeros when the process is gone."""
    # The first thread may have exited, and then shows nothing of the memory that the others still use.
    for thread in threads:
        values = dict.fromkeys(names, 0)
        with (
            contextlib.suppress(OSError),
            (thread / file).open(encoding="ascii", errors="replace") as lines,
        ):
            for line in lines:
                name, _, value = line.partition(":")
                if name in values:
                    values[name] = int(value.split()[0]) << 10
        if any(values.values()):
            return tuple(values.values())
    return (0,) * len(names)


def _tmpfs_bytes(path: Path) -> int:
    try:
        use = os.statvfs(path)
    except OSError:
        return 0
    return (use.f_blocks - use.f_bfree) * use.f_frsize + (use.f_files - use.f_ffree) * _TMPFS_INODE_BYTES


def _files_exceed(limit: int, *files: Iterable[os.stat_result]) -> bool:
    seen: set[tuple[int, int]] = set()
    total = 0
    for status in itertools.chain(*files):
        # A file with several names uses its blocks once.
        if status.st_nlink != 1 and not stat.S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
        total += max(status.st_blocks * 512, _SMALLEST_FILE_BYTES)
        if total > limit:
            return True
    return False


def _files_below(writable: Iterable[Path]) -> Iterator[os.stat_result]:
    for path in writable:
        with contextlib.suppress(OSError):
            status = path.lstat()
            yield status
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), _MAX_DEPTH)


def _walk(directory: int, depth: int) -> Iterator[os.stat_result]:
    """Yield everything below an open directory, which this closes. The tree may change during the walk."""
    try:
        if depth == 0:
            raise _UnmeasurableError
        with os.scandir(directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        yield from _walk(_open_directory(entry.name, directory), depth - 1)
    finally:
        os.close(directory)


def _open_directory(name: str, parent: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except PermissionError as error:
        # A trial of the same user can lock us out of a directory that it continues to fill.
        raise _UnmeasurableError from error


class _OpenFile(Record):
    """An unlinked file or a socket that a process has open, and the /proc file that describes it."""

    info: str
    status: os.stat_result

    def carries_files(self) -> bool:
        """Say whether it is a socket with files that were sent and not yet received."""
        if not stat.S_ISSOCK(self.status.st_mode):
            return False
        with contextlib.suppress(OSError, ValueError), Path(self.info).open("rb") as lines:
            return any(int(line.split()[1]) for line in lines if line.startswith(b"scm_fds:"))
        return False


def _invisible_files(tree: _Threads, root: int) -> Iterator[_OpenFile]:
    """Open files that no directory walk sees, and sockets that may carry more of them."""
    for pid, threads in tree.items():
        # We look at each thread, because threads need not share their descriptors.
        for thread in threads:
            try:
                yield from _open_files_of(thread)
            except PermissionError as error:
                if pid != root and _hides_descriptors(thread):
                    raise _UnmeasurableError from error
            except OSError:
                continue


def _open_files_of(thread: Path) -> Iterator[_OpenFile]:
    with os.scandir(thread / "fd") as descriptors:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                status = descriptor.stat()
                unlinked = status.st_nlink == 0 and stat.S_ISREG(status.st_mode)
                if unlinked or stat.S_ISSOCK(status.st_mode):
                    yield _OpenFile(f"{thread}/fdinfo/{descriptor.name}", status)


def _hides_descriptors(thread: Path) -> bool:
    """Say whether a process hides its descriptors from its own user, as one that is not dumpable does."""
    with contextlib.suppress(OSError):
        lines = (thread / "status").read_text(errors="replace").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        # An exiting process shows nothing either. Neither does another user's process, such as `sudo`.
        return "VmSize" in fields and fields["Uid"].split()[1] == str(os.geteuid())
    return False


def _files_behind_mappings(
    tree: _Threads, places: tuple[str, ...], known: Collection[tuple[int, int]]
) -> Iterator[os.stat_result]:
    """Return deleted files at these places that only a mapping keeps, without the known ones."""
    for pid, threads in tree.items():
        for line in _mappings_without_name(threads):
            span, _, _, device, inode, name = line.split(maxsplit=5)
            major, minor = (int(number, 16) for number in device.split(":"))
            if not name.startswith(places) or (os.makedev(major, minor), int(inode)) in known:
                continue
            start, end = (int(address, 16) for address in span.split("-"))
            try:
                yield Path(f"/proc/{pid}/map_files/{start:x}-{end:x}").stat()
            except PermissionError as error:
                # Only root may see the file behind a mapping, whose length says nothing about the file's size.
                raise _UnmeasurableError from error
            except OSError:
                continue


def _mappings_without_name(threads: Sequence[Path]) -> list[str]:
    """List the mappings of a process whose files have been deleted."""
    for thread in threads:
        with contextlib.suppress(OSError):
            if text := (thread / "maps").read_text(errors="surrogateescape"):
                return [line for line in text.split("\n") if line.endswith(" (deleted)")]
    return []


class _UnmeasurableError(Exception):
    """The tree cannot be measured, which counts as too large."""
