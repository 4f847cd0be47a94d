"""Folders of loopty's own, opened step by step by handle: never through a link, and only of a known owner."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from loopty.kit.contents import write_atomically
from loopty.kit.process import trial_owner
from loopty.kit.records import Record, replace

_MOST_STEPS = 3
"""From the root to a directory that is kept open."""


class KeptHandle:
    """The handle of a directory, closed when nobody uses it any more: another thread may still walk from it."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


_KEPT: dict[Path, dict[tuple[str, ...], KeptHandle]] = {}
"""By root and steps."""


def has(root: Path, steps: tuple[str, ...]) -> bool:
    return steps in _KEPT.get(root, ())


def keep(root: Path, steps: tuple[str, ...], descriptor: int) -> None:
    """Keep this handle of the directory, which is closed after `forget`."""
    _KEPT.setdefault(root, {})[steps] = KeptHandle(descriptor)


def forget(root: Path, steps: tuple[str, ...]) -> None:
    """Keep the handle of this directory no longer, if it is kept."""
    handles = _KEPT.get(root, {})
    handles.pop(steps, None)
    if not handles:
        _KEPT.pop(root, None)


def nearest(root: Path, steps: tuple[str, ...]) -> tuple[KeptHandle | None, int]:
    """Find the kept handle of this directory or of the nearest one above it, and the number of its steps."""
    if _KEPT and (handles := _KEPT.get(root)):
        for count in range(min(len(steps), _MOST_STEPS), 0, -1):
            if (near := handles.get(steps[:count])) is not None:
                return near, count
    return None, 0


_REAL_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(name: str, folder: int) -> None:
    """Remove this directory of an open folder. A link below it is removed, and never followed."""
    try:
        _remove(name, folder)
    except (OSError, RecursionError):
        # Directories nested thousands deep exceed Python's recursion limit and the kernel's longest path;
        # rm walks by descriptors. Directories that deny access to their own owner are opened first.
        here = f"/proc/{os.getpid()}/fd/{folder}"
        subprocess.run(["chmod", "-R", "u+rwX", "--", f"./{name}"], cwd=here, capture_output=True)
        subprocess.run(["rm", "-rf", "--", f"./{name}"], cwd=here, capture_output=True)


def _remove(name: str, folder: int) -> None:
    """Remove an empty directory, as most are, without a look into it."""
    try:
        os.rmdir(name, dir_fd=folder)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    inside = os.open(name, _REAL_DIRECTORY, dir_fd=folder)
    try:
        with os.scandir(inside) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for entry, is_directory in entries:
            if is_directory:
                _remove(entry, inside)
            else:
                os.unlink(entry, dir_fd=inside)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=folder)


# A repository, an artifact or another user may have put a link where loopty keeps its files; whoever opens such a
# path by its name writes to, reads from or empties what the link names. So everything below a trusted root is
# opened relative to the handle of its directory (`openat` with `O_NOFOLLOW`), and each directory on the way must
# belong to this user or to root.


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LARGEST_COPY = 64 << 20


class UnsafePath(OSError):  # noqa: N818 - it is a finding about a path, with its remedy
    """A link, a foreign owner or a special file where loopty keeps files of its own."""

    def __init__(self, path: Path | str, finding: str) -> None:
        super().__init__(errno.ELOOP, f"{finding}: move it away, then try again", str(path))

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


@contextlib.contextmanager
def keep_open(*folders: SafeFolder) -> Iterator[None]:
    """Keep these directories open meanwhile: what is below them is reached from there, in half of the time.

    They are created where they are missing. One that is removed meanwhile is looked for again; one that is moved
    is used where it is. Their file system cannot be unmounted.
    """
    with contextlib.ExitStack() as kept:
        for folder in folders:
            if not has(folder.root, folder.steps):
                keep(folder.root, folder.steps, folder.open(make=True))
                kept.callback(forget, folder.root, folder.steps)
        yield


class SafeFolder(Record):
    """A directory below a root. Only the root may be reached through links; it is the caller's to choose."""

    root: Path
    steps: tuple[str, ...] = ()
    trial_user: int | None = None
    """The user that trials run as, where a trial may have written below this folder."""

    @property
    def shown_path(self) -> Path:
        """Return its path for messages and comparisons; nothing is opened by it."""
        return self.root.joinpath(*self.steps)

    @property
    def shown_text(self) -> str:
        """Return `shown_path` as text, for rare messages: a Path takes longer to make than a folder."""
        return self._path_to(len(self.steps))

    def path_for_programs(self, may_be_missing: bool = False) -> Path:
        """Return its path for programs that take nothing else: git, SQLite, mounts. Checks the way there first.

        Only this user can write to the directories on the way, so nobody else can change it meanwhile.
        """
        try:
            os.close(self.open())
        except FileNotFoundError:
            if not may_be_missing:
                raise
        return self.shown_path

    @property
    def name(self) -> str:
        return self.steps[-1] if self.steps else self.root.name

    def below(self, *steps: str) -> SafeFolder:
        """Return a directory inside this one. Raises UnsafePath for a step that leads elsewhere."""
        for step in steps:
            if step in ("", ".", "..") or "/" in step or "\0" in step:
                raise UnsafePath(self.shown_path, f"cannot hold {step!r}")
        return SafeFolder(self.root, (*self.steps, *steps), self.trial_user)

    def beside(self, name: str) -> SafeFolder:
        """Return the directory of this name in the same directory."""
        return replace(self, steps=self.steps[:-1]).below(name)

    def written_by(self, trial_user: int | None) -> SafeFolder:
        """Return the same directory, which may belong to the user of the trials."""
        return replace(self, trial_user=trial_user)

    def file(self, name: str) -> SafeFile:
        return SafeFile(self.below(name))

    def file_at(self, path: str) -> SafeFile:
        """Return the file at this path below. Raises UnsafePath for a step that leads elsewhere."""
        return SafeFile(self.below(*path.split("/")))

    @contextlib.contextmanager
    def handle(self, make: bool = False) -> Iterator[int]:
        """Hold an open descriptor of the directory. Raises FileNotFoundError unless `make`, and UnsafePath."""
        descriptor = self.open(make)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def open(self, make: bool = False) -> int:
        """Open the directory as `handle` does; the caller closes the descriptor."""
        near, count = nearest(self.root, self.steps)
        try:
            return self._walk(near, count, make)
        except FileNotFoundError:
            if near is None or os.fstat(near.descriptor).st_nlink:
                raise
            forget(self.root, self.steps[:count])  # it was removed; there may be a new one
            return self.open(make)

    def _walk(self, near: KeptHandle | None, count: int, make: bool) -> int:
        """Open step by step, from the root or from a kept handle, which has this number of steps."""
        known = (os.geteuid(), 0, self.trial_user)
        descriptor, is_ours = (os.open(self.root, _DIRECTORY), True) if near is None else (near.descriptor, False)
        for number in range(count, len(self.steps)):
            above = descriptor
            try:
                descriptor = self._open_step(above, self.steps[number], number + 1, make)
            finally:
                if is_ours:
                    os.close(above)
            is_ours = True
            if os.fstat(descriptor).st_uid not in known:
                os.close(descriptor)
                raise UnsafePath(self._path_to(number + 1), "belongs to another user")
        if is_ours:
            return descriptor
        if not os.fstat(descriptor).st_nlink:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.shown_text)
        return os.open(".", _DIRECTORY, dir_fd=descriptor)

    def _open_step(self, above: int, step: str, count: int, make: bool) -> int:
        try:
            try:
                return os.open(step, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, dir_fd=above)
                return os.open(step, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            path = self._path_to(count)
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UnsafePath(path, "is a link or not a directory") from None
            if error.filename == step:  # the whole path, for the message
                error.filename = path
            raise

    def _path_to(self, count: int) -> str:
        return "/".join((str(self.root), *self.steps[:count]))

    def make(self) -> SafeFolder:
        """Create the directory and those above it, where they are missing."""
        os.close(self.open(make=True))
        return self

    def make_private(self) -> SafeFolder:
        """Make it for this user alone: others must not reach a program that a trial left in it.

        Where trials run as a user of their own, that one may pass: some sandboxes find files by their path.
        """
        owner, mode = trial_owner(), 0o700
        with self.handle(make=True) as folder:
            status = os.fstat(folder)
            if owner and status.st_gid != owner[1]:
                with contextlib.suppress(OSError):  # a container may not know this group
                    os.fchown(folder, -1, owner[1])
            if owner and os.fstat(folder).st_gid == owner[1]:
                mode = 0o710
            if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != mode:
                os.fchmod(folder, mode)
        return self

    def exists(self) -> bool:
        try:
            os.close(self.open())
        except FileNotFoundError:
            return False
        return True

    def is_absent(self) -> bool:
        """Say whether nothing is there, found out by its path alone.

        A link in the way may make it true: good for work that can be left out, never for what has to be safe.
        """
        try:
            os.lstat(self._path_to(len(self.steps)))
        except OSError as error:
            return error.errno == errno.ENOENT
        return False

    def names(self) -> list[str]:
        """List the names in the directory, in order; none if it is missing."""
        try:
            with self.handle() as folder:
                return sorted(os.listdir(folder))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write these files in order, each as a whole or not at all; create the directory if it is missing."""
        with self.handle(make=True) as folder:
            for name, content in files.items():
                write_atomically(".", self.below(name).name, content, dir_fd=folder)

    def rename(self, name: str, new: str) -> None:
        """Rename an entry of this directory. Raises OSError where a directory of the new name is not empty."""
        with self.handle() as folder:
            os.rename(self.below(name).name, self.below(new).name, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, name: str) -> None:
        """Remove an entry of this directory and everything below it, if it exists; of a link, the link itself.

        Copes with any depth and any mode.
        """
        entry = self.below(name).name
        with contextlib.suppress(FileNotFoundError), self.handle() as folder:
            if not stat.S_ISDIR(os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(entry, dir_fd=folder)
                return
            remove_tree(entry, folder)

    def remove_all(self) -> None:
        """Remove the directory itself with everything below it, if it exists."""
        SafeFolder(self.root, self.steps[:-1], self.trial_user).remove(self.name)

    def copy_into(self, target: SafeFolder) -> None:
        """Copy new and changed files into another directory, with directories; huge files are left out."""
        with self.handle() as source, target.handle(make=True) as copy:
            for name in os.listdir(source):  # noqa: PTH208
                status = os.stat(name, dir_fd=source, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    self.below(name).copy_into(target.below(name))
                elif status.st_size <= _LARGEST_COPY and not _is_copied(name, status, copy):
                    _copy(self.file(name), source, target.file(name), copy)


class SafeFile(Record):
    """A regular file in a safe folder."""

    _place: SafeFolder
    """Its folder and its name."""

    @property
    def name(self) -> str:
        return self._place.name

    @property
    def folder(self) -> SafeFolder:
        place = self._place
        return SafeFolder(place.root, place.steps[:-1], place.trial_user)

    @property
    def shown_path(self) -> Path:
        """Return its path for messages and for the output of programs; nothing is opened by it."""
        return self._place.shown_path

    def path_for_programs(self) -> Path:
        """Return its path for programs that take nothing else; a link or a special file there is refused."""
        with self.folder.handle() as folder, contextlib.suppress(FileNotFoundError):
            self._plain_status(folder)
        return self.shown_path

    def open(self, flags: int, mode: int = 0o666) -> int:
        """Open the file and return its descriptor. With O_CREAT, its folder is created, too.

        Raises FileNotFoundError, IsADirectoryError, and UnsafePath for a link, another special file, a foreign
        owner, and for writing a file with a second name.
        """
        folder = self.folder.open(make=bool(flags & os.O_CREAT))
        try:
            return self.open_in(folder, flags, mode)
        finally:
            os.close(folder)

    def open_in(self, folder: int, flags: int, mode: int = 0o666) -> int:
        """Open the file as `open` does, if the handle of its folder is open already."""
        # Non-blocking, so that a FIFO without a writer cannot block us.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self.name, flags & ~os.O_TRUNC, mode, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise UnsafePath(self.shown_path, "is a link or a special file") from None
            error.filename = self._place.shown_text
            raise
        try:
            self._require_plain(os.fstat(descriptor), writes=bool(flags & (os.O_WRONLY | os.O_RDWR)))
            if flags & os.O_TRUNC:  # only now: a second name may be a file of the user
                os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _require_plain(self, status: os.stat_result, writes: bool) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.shown_path))
        if not stat.S_ISREG(status.st_mode):
            raise UnsafePath(self.shown_path, "is not a regular file")
        if not _is_known_owner(status.st_uid, self._place.trial_user):
            raise UnsafePath(self.shown_path, "belongs to another user")
        if writes and status.st_nlink > 1:
            raise UnsafePath(self.shown_path, "has a second name (a hard link)")

    @property
    def size(self) -> int:
        """Return its size in bytes; 0 if it is missing."""
        try:
            with self.folder.handle() as folder:
                return self._plain_status(folder).st_size
        except FileNotFoundError:
            return 0

    def exists(self) -> bool:
        """Say whether there is a regular file. Raises UnsafePath for a link."""
        try:
            with self.folder.handle() as folder:
                self._plain_status(folder)
        except (FileNotFoundError, IsADirectoryError):
            return False
        return True

    def _plain_status(self, folder: int) -> os.stat_result:
        """Return the status of the file in its open folder, without opening it; raises what `open` raises.

        To close a file ends all locks that this process has on it. Connections of SQLite rely on theirs: without
        them two processes may write at once, or one removes the log that the other uses.
        """
        status = os.stat(self.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise UnsafePath(self.shown_path, "is a link or a special file")
        self._require_plain(status, writes=False)
        return status

    def read(self, limit_bytes: int | None = None, tail: bool = False) -> bytes:
        """Read the content: all of it, or at most so many bytes of its head or its tail."""
        with os.fdopen(self.open(os.O_RDONLY), "rb") as file:
            if tail and limit_bytes is not None:
                file.seek(max(0, os.fstat(file.fileno()).st_size - limit_bytes))
            return file.read(-1 if limit_bytes is None else limit_bytes)

    def write(self, content: bytes, *, durable: bool = False, mode: int = 0o666) -> None:
        """Write the file as a whole or not at all; create its folder if it is missing. A link is replaced."""
        with self.folder.handle(make=True) as folder:
            write_atomically(".", self.name, content, durable=durable, mode=mode, dir_fd=folder)

    def append(self, content: bytes) -> None:
        """Append to the file, which is created with its folder if it is missing."""
        with os.fdopen(self.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
            file.write(content)

    def remove(self) -> None:
        """Remove the file, if it exists; of a link, the link itself."""
        self.folder.remove(self.name)

    def copy_to(self, target: SafeFile) -> None:
        """Copy the file with its mode and times."""
        with self.folder.handle() as source, target.folder.handle(make=True) as copy:
            _copy(self, source, target, copy)


def _copy(source: SafeFile, source_folder: int, target: SafeFile, target_folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(source.open_in(source_folder, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        with os.fdopen(target.open_in(target_folder, flags), "wb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            os.fchmod(copy.fileno(), status.st_mode & 0o777)  # no bit that makes others the owner
            os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _is_copied(name: str, status: os.stat_result, folder: int) -> bool:
    """Say whether a file of this name has this size and this time of its last change; no link has."""
    try:
        own = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(own.st_mode) and (own.st_size, own.st_mtime_ns) == (status.st_size, status.st_mtime_ns)


def _is_known_owner(uid: int, trial_user: int | None) -> bool:
    return uid in (os.geteuid(), 0, trial_user)
