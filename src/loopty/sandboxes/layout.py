"""A launch's view without namespaces: its mounts laid out in a directory, its paths moved there."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Launch, Mount, SandboxError
from loopty.sandboxes.bubblewrap_options import refuse_mount_points_that_a_trial_could_move

Show = Callable[[Path, Path, bool], None]
"""Put a source that is only read at a place; the last says whether other mounts come into it."""


def show_as_copy(source: Path, place: Path, _: bool) -> None:
    """A copy: whatever happens to it, the source is unharmed."""
    _copy_tree(source, place)


def show_as_link(source: Path, place: Path, is_covered: bool) -> None:
    """The source itself, for those who are kept from writing to it.

    As one link where that will do: it costs nothing and follows what the host changes. Otherwise a copy, because
    a link inside would lead past what covers it.
    """
    if is_covered:
        _copy_tree(source, place)
    else:
        place.symlink_to(source)


class Layout:
    """A directory that stands for the root of the launch's file system."""

    def __init__(self, root: Path, launch: Launch, show: Show, temporary: tuple[str, ...] = ()) -> None:
        self.root = root
        self._launch = launch
        self._show = show
        self._temporary = temporary
        # A mount at its own place, as of a toolchain, is there already.
        self._mounts = [mount for mount in launch.mounts if str(mount.source) != mount.target]
        self._unmoved = {mount.target for mount in launch.mounts} - {mount.target for mount in self._mounts}
        targets = {*(mount.target for mount in self._mounts), *launch.scratch, *temporary}
        # With the directories above them that only the layout has: a search path may name one of those.
        above = {str(parent) for target in targets for parent in PurePosixPath(target).parents}
        self._moved = {*targets, *(parent for parent in above if not Path(parent).exists())}

    def build(self) -> None:
        """Lay out mounts and scratch directories in their order."""
        refuse_mount_points_that_a_trial_could_move(self._launch)
        try:
            for target in self._temporary:
                self._clear(target).mkdir()
            for mount in self._mounts:
                place = self._clear(mount.target)
                if mount.writable or mount.source.is_socket():
                    place.symlink_to(mount.source)
                else:
                    self._show(mount.source, place, self._is_covered(mount))
            for target in self._launch.scratch:
                self._clear(target).mkdir()
            self._home.mkdir()
        except (OSError, shutil.Error) as error:
            raise SandboxError(f"cannot lay out the files of a trial: {error}") from error

    @property
    def private_directories(self) -> tuple[Path, ...]:
        """The directories that start empty, may be written, and vanish at the end."""
        return (self._home, *map(self.host_path, (*self._temporary, *self._launch.scratch)))

    @property
    def writable_paths(self) -> tuple[Path, ...]:
        """Where the launch may write, on the host."""
        return (*self.private_directories, *(mount.source for mount in self._launch.mounts if mount.writable))

    @property
    def environment(self) -> dict[str, str]:
        """The launch's variables, moved, and a home."""
        variables = {name: self.translate(value) for name, value in self._launch.env.items()}
        return {"HOME": str(self._home), **variables}

    def translate(self, text: str) -> str:
        """`text` with every path in it, or in its parts between colons, moved to where the layout has it."""
        return ":".join(map(self._translate_path, text.split(":")))

    def host_path(self, target: str) -> Path:
        """Where a path inside is on the host."""
        return self.root / target.lstrip("/")

    def remove(self) -> None:
        """Remove it with all that a trial has left in it."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self.root.exists():
            # Directories that forbid their own owner, or nested too deep for Python.
            subprocess.run(["chmod", "-R", "u+rwX", "--", self.root], capture_output=True)
            subprocess.run(["rm", "-rf", "--", self.root], capture_output=True)

    @property
    def _home(self) -> Path:
        return self.root / "home"

    def _is_covered(self, mount: Mount) -> bool:
        targets = (*(other.target for other in self._launch.mounts), *self._launch.scratch)
        return any(PurePosixPath(mount.target) in PurePosixPath(target).parents for target in targets)

    def _translate_path(self, text: str) -> str:
        # The nearest decides: a toolchain below /tmp stays where it is when /tmp itself is moved.
        for above in (text, *map(str, PurePosixPath(text).parents)):
            if above in self._moved:
                return str(self.host_path(text))
            if above in self._unmoved:
                break
        return text

    def _clear(self, target: str) -> Path:
        place = self.host_path(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        return place


def _copy_tree(source: Path, place: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, place, symlinks=True, copy_function=_copy_file)
    else:
        _copy_file(str(source), str(place))


def _copy_file(source: str, place: str) -> None:
    # Not a hard link: that would leave a mark on a sealed file, as if somebody had touched it.
    if stat.S_ISSOCK(os.lstat(source).st_mode):
        Path(place).symlink_to(source)
    else:
        shutil.copy2(source, place, follow_symlinks=False)
