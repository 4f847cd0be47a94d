"""Let an unprivileged user reach bind sources inside directories that only root may enter."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import stat
import weakref
from pathlib import Path

from loopty.domain.launch import SandboxError
from loopty.kit.temporary_folder import fresh_name, is_abandoned

_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_SLAVE = 0x2, 0x4, 0x1000, 0x4000, 0x80000
_MNT_DETACH = 2

# Not /tmp: a cleaner that removes old empty directories there would remove the mounts of a long run.
_PARENT = "/run"


def open_source(source: Path) -> int:
    """Open a bind source with O_PATH. Raises SandboxError when it does not exist or contains a symbolic link.

    O_NOFOLLOW guards only the last component, so we also compare the kernel's own name for what was opened: a link
    planted anywhere on the way would give the trial what it points to.
    """
    try:
        descriptor = os.open(source, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxError(f"cannot open bind source {source}: {error.strerror}") from error
    name = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - for every mount of every trial
    if name != str(source) or stat.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SandboxError(f"bind source {source} is or crosses a symbolic link; pass the resolved path")
    return descriptor


class BindAliases:
    """Aliases of bind sources in a directory that everyone may enter.

    The aliases are bind mounts in a private mount namespace, which the calling thread enters when it needs the
    first alias. Only that thread and its later children see them, so a trial must be started from the thread that
    asked for its sources. The namespace vanishes with the process, even when it is killed; the empty directory
    that is left then is removed by the next process.
    """

    def __init__(self, uid: int, gid: int) -> None:
        self._uid = uid
        self._gid = gid
        self._directory: Path | None = None
        self._aliases: dict[Path, Path] = {}
        _remove_abandoned()

    def reachable_path(self, source: Path) -> Path:
        """Return a path to `source` that the unprivileged user can resolve."""
        if (entry := self._entry_below_closed_folder(source)) is None:
            return source
        alias = self._aliases.get(entry)
        if alias is None or not _is_same_file(alias, entry):
            alias = self._aliases[entry] = self._make_alias(entry)
        return alias / source.relative_to(entry)

    def _entry_below_closed_folder(self, source: Path) -> Path | None:
        """Find the topmost part of `source` below the last directory that the user cannot search, or None."""
        # One alias there serves every source below it, so the number of mounts does not grow with the trials.
        entry = None
        steps = [*reversed(source.parents), source]
        for directory, below in itertools.pairwise(steps):
            try:
                status = directory.stat()
            except OSError as error:
                raise SandboxError(f"cannot reach bind source {source}: {error.strerror}") from error
            if not self._may_search(status):
                entry = below
        return entry

    def _may_search(self, status: os.stat_result) -> bool:
        if status.st_uid == self._uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self._gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)

    def _make_alias(self, entry: Path) -> Path:
        try:
            # Enter the namespace first: a file opened outside it cannot be mounted inside it.
            if self._directory is None:
                self._directory = self._enter_namespace()
            alias = self._directory / str(len(list(self._directory.iterdir())))
            descriptor = open_source(entry)
            try:
                if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    alias.mkdir()
                else:
                    alias.touch()
                _mount(f"/proc/self/fd/{descriptor}", alias, None, _MS_BIND | _MS_REC)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SandboxError(
                f"cannot show {entry} to an unprivileged user: {error.strerror}; run loopty as an ordinary "
                "user, or keep the repository and its toolchain in directories that every user may enter"
            ) from error
        return alias

    def _enter_namespace(self) -> Path:
        if _libc().unshare(_CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        # A slave mount still follows what the host mounts and unmounts, but the host sees nothing of ours.
        _mount(None, Path("/"), None, _MS_REC | _MS_SLAVE)
        directory = Path(_PARENT, fresh_name())
        directory.mkdir(0o700)
        weakref.finalize(self, _unmount, directory, os.getpid())
        # With its own tmpfs nothing is ever written to the host's directory, which stays removable.
        _mount("tmpfs", directory, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0711")
        return directory


def _remove_abandoned() -> None:
    """Remove the empty directories of processes that were killed."""
    for name in os.listdir(_PARENT):  # noqa: PTH208 - names, not paths
        if is_abandoned(name):
            with contextlib.suppress(OSError):
                Path(_PARENT, name).rmdir()


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return os.path.samestat(one.lstat(), other.lstat())
    except OSError:
        return False


def _unmount(directory: Path, owner: int) -> None:
    # A forked child inherits this finalizer, but must not remove its parent's mounts.
    if os.getpid() == owner:
        _libc().umount2(os.fsencode(directory), _MNT_DETACH)
        with contextlib.suppress(OSError):
            directory.rmdir()


def _mount(source: str | None, target: Path, kind: str | None, flags: int, data: str = "") -> None:
    arguments = [None if text is None else text.encode() for text in (source, str(target), kind)]
    if _libc().mount(*arguments, ctypes.c_ulong(flags), data.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
