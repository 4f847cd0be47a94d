"""How much memory and disk a process tree uses now."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopty.domain.launch import Bounds, Mount, Stop

# An empty file still costs an inode: a block on most disks, about 1 KiB of kernel memory on a tmpfs.
_SMALLEST_FILE_BYTES = 4096
_TMPFS_INODE_BYTES = 1024

# No honest tree is that deep, and each level holds descriptors while it is walked.
_DEEPEST = 100

# Who sends a file to another process, sends it to one that takes it.
_DELIVERY_SECONDS = 4.0

_Threads = Mapping[int, Sequence[Path]]


class Footprint:
    """Where a tree's use shows: its root process, its memory file systems, what it may write of the host's.

    The mounts tell where the tree sees what it may write.
    """

    def __init__(self, root: int, tmpfs: tuple[Path, ...], writable: tuple[Mount, ...]) -> None:
        self._root = root
        self._tmpfs = tmpfs
        self._writable = writable
        self._sending_since: float | None = None

    def excess(self, bounds: Bounds) -> Stop | None:
        """The bound that is exceeded, or None. To be asked again and again."""
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
        held = {(held.status.st_dev, held.status.st_ino): held for held in _invisible_files(tree, self._root)}
        if _files_exceed(
            limit,
            _files_below(mount.source for mount in self._writable),
            (each.status for each in held.values() if stat.S_ISREG(each.status.st_mode)),
            _files_behind_mappings(tree, tuple(f"{mount.target}/" for mount in self._writable), held.keys()),
        ):
            return True
        # A file between two processes has neither a name nor an owner, so it must not stay there.
        if not any(each.carries_files() for each in held.values()):
            self._sending_since = None
            return False
        self._sending_since = self._sending_since or time.monotonic()
        return time.monotonic() - self._sending_since > _DELIVERY_SECONDS


def sees_files_between_processes() -> bool:
    """Whether this kernel tells that a socket has files in it, which it does since 5.7."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return b"scm_fds" in Path(f"/proc/self/fdinfo/{ours.fileno()}").read_bytes()


def threads_of_tree(root: int) -> _Threads:
    """A process and its descendants by number, each with the directories of its threads."""
    found: dict[int, Sequence[Path]] = {}
    queue = [root]
    while queue:
        pid = queue.pop()
        found[pid] = ()
        with contextlib.suppress(OSError):
            found[pid] = tuple(Path(f"/proc/{pid}/task").iterdir())
        for thread in found[pid]:
            with contextlib.suppress(OSError):
                children = [int(word) for word in (thread / "children").read_text().split()]
                queue += [child for child in children if child not in found]
    return found


def _exceeds_memory(tree: _Threads, tmpfs: int, limit: int) -> bool:
    # The cheap sum counts a page once for each process that shares it, so it can only be too high.
    cheap = [_proc_fields(threads, "status", "RssAnon", "RssShmem", "VmSwap") for threads in tree.values()]
    if tmpfs + sum(map(sum, cheap)) <= limit:
        return False
    anonymous = shared = 0
    for threads, known in zip(tree.values(), cheap, strict=True):
        fields = _proc_fields(threads, "smaps_rollup", "Pss_Anon", "Pss_Shmem", "SwapPss")
        # A process that hides its map (not dumpable) is taken at its cheap sum.
        private, mapped, swapped = fields if any(fields) else known
        anonymous += private + swapped
        shared += mapped
    # Mapped files of a tmpfs show up on both sides. The larger one never counts them twice.
    return anonymous + max(shared, tmpfs) > limit


def _proc_fields(threads: Sequence[Path], file: str, *names: str) -> tuple[int, ...]:
    """Bytes by field of a process's /proc file; zeros when it is gone."""
    # The first thread may have left, and then tells nothing of the memory that the others go on using.
    for thread in threads:
        found = dict.fromkeys(names, 0)
        with (
            contextlib.suppress(OSError),
            (thread / file).open(encoding="ascii", errors="replace") as lines,
        ):
            for line in lines:
                name, _, value = line.partition(":")
                if name in found:
                    found[name] = int(value.split()[0]) << 10
        if any(found.values()):
            return tuple(found.values())
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
        # Several names of one file cost its blocks once.
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
                yield from _walk(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), _DEEPEST)


def _walk(directory: int, depth: int) -> Iterator[os.stat_result]:
    """Everything below an open directory, which is closed. The tree may change while it is walked."""
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
        # A trial of the same user can lock us out of a directory it goes on filling.
        raise _UnmeasurableError from error


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """An unlinked file or a socket that a process has open, and where the kernel tells of it."""

    about: str
    status: os.stat_result

    def carries_files(self) -> bool:
        """Whether it is a socket with files in it that were sent and not yet received."""
        if not stat.S_ISSOCK(self.status.st_mode):
            return False
        with contextlib.suppress(OSError, ValueError), Path(self.about).open("rb") as lines:
            return any(int(line.split()[1]) for line in lines if line.startswith(b"scm_fds:"))
        return False


def _invisible_files(tree: _Threads, root: int) -> Iterator[_OpenFile]:
    """Files that fill the disk unseen by any walk, and sockets that may carry more of them."""
    for pid, threads in tree.items():
        # Of each thread, because threads need not share their descriptors.
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
    """Whether a process keeps what it has open from its own user, as one may that is not to be dumped."""
    with contextlib.suppress(OSError):
        lines = (thread / "status").read_text(errors="replace").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        # One that is just leaving shows nothing either, nor does another user's: outside of a sandbox, `sudo`.
        return "VmSize" in fields and fields["Uid"].split()[1] == str(os.geteuid())
    return False


def _files_behind_mappings(
    tree: _Threads, places: tuple[str, ...], known: Collection[tuple[int, int]]
) -> Iterator[os.stat_result]:
    """Files without a name at these places that only a mapping holds: they are not among the known."""
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
                # Only root may look behind a mapping, and its length says nothing of the file's.
                raise _UnmeasurableError from error
            except OSError:
                continue


def _mappings_without_name(threads: Sequence[Path]) -> list[str]:
    """What a process maps of files that have no name."""
    for thread in threads:
        with contextlib.suppress(OSError):
            if text := (thread / "maps").read_text(errors="surrogateescape"):
                return [line for line in text.split("\n") if line.endswith(" (deleted)")]
    return []


class _UnmeasurableError(Exception):
    """The tree cannot be measured, which counts as too large."""
