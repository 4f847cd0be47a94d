"""A launch's files without namespaces: its mounts laid out in a directory, its paths translated to it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Launch, Mount, SandboxError
from loopty.sandboxes.trial_view import refuse_mount_points_that_a_trial_could_move

Show = Callable[[Path, Path, bool], None]
"""Show a read-only source at a path; the last argument tells whether other mounts come inside it."""

_PATH_IN_VALUE = re.compile(r"(^|[\s:=,]|file://)(/[^\s:=,]*)")
"""A path in a variable may follow an option, as in `--out=/path`, and be the path of an address."""


def show_as_copy(source: Path, path: Path, _: bool) -> None:
    """Copy the source: changes to the copy never reach it."""
    _copy_tree(source, path)


def show_as_link(source: Path, path: Path, is_covered: bool) -> None:
    """Show the source itself, for a trial that is kept from writing to it.

    One link where possible: it costs nothing and follows changes on the host. Otherwise a copy, because a link
    would bypass the mounts that cover parts of the source.
    """
    if is_covered:
        _copy_tree(source, path)
    else:
        path.symlink_to(source)


class Layout:
    """A directory laid out like the root of the launch's file system."""

    def __init__(self, root: Path, launch: Launch, show: Show, temporary: tuple[str, ...] = ()) -> None:
        self.root = root
        self._launch = launch
        self._show = show
        self._temporary = temporary
        # A mount at its own path, such as a toolchain, needs no layout.
        self._mounts = [mount for mount in launch.mounts if str(mount.source) != mount.target]
        # The repository's path on the host stays, too: what is shown of it there can be read under its own name.
        self._unmoved_targets = {*(mount.target for mount in launch.mounts), *launch.links} - {
            mount.target for mount in self._mounts
        }
        targets = {*(mount.target for mount in self._mounts), *launch.scratch, *temporary}
        # Plus the directories above them that exist only in the layout: a search path may name one of those.
        above = {str(parent) for target in targets for parent in PurePosixPath(target).parents}
        self._moved_targets = {*targets, *(parent for parent in above if not Path(parent).exists())}

    def build(self) -> None:
        """Lay out mounts and scratch directories in their order. Raises SandboxError when that fails."""
        refuse_mount_points_that_a_trial_could_move(self._launch)
        try:
            for target in self._temporary:
                self._clear(target).mkdir()
            for mount in self._mounts:
                path = self._clear(mount.target)
                if mount.writable or mount.source.is_socket():
                    path.symlink_to(mount.source)
                else:
                    self._show(mount.source, path, self._is_covered(mount))
            for target in self._launch.scratch:
                self._clear(target).mkdir()
            self._home.mkdir()
        except (OSError, shutil.Error) as error:
            raise SandboxError(f"cannot lay out the files of a trial: {error}") from error

    @property
    def private_directories(self) -> tuple[Path, ...]:
        """Return the writable directories that start empty and are removed at the end."""
        return (self._home, *map(self.host_path, (*self._temporary, *self._launch.scratch)))

    @property
    def writable_paths(self) -> tuple[Path, ...]:
        """Return the host paths that the launch may write."""
        return (*self.private_directories, *(mount.source for mount in self._launch.mounts if mount.writable))

    @property
    def environment(self) -> dict[str, str]:
        """Return the launch's variables with translated paths, and a home."""
        variables = {
            name: _PATH_IN_VALUE.sub(lambda found: found[1] + self._translate_path(found[2]), value)
            for name, value in self._launch.env.items()
        }
        return {"HOME": str(self._home), **variables}

    def translate(self, text: str) -> str:
        """Return `text` with every path in it, also between colons, replaced by its path in the layout."""
        return ":".join(map(self._translate_path, text.split(":")))

    def host_path(self, target: str) -> Path:
        """Return the host path of a path inside."""
        return self.root / target.lstrip("/")

    def remove(self) -> None:
        """Remove the directory with everything that a trial has left in it."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self.root.exists():
            # Some directories deny access to their own owner, or are nested too deep for Python.
            subprocess.run(["chmod", "-R", "u+rwX", "--", self.root], capture_output=True)
            subprocess.run(["rm", "-rf", "--", self.root], capture_output=True)

    @property
    def _home(self) -> Path:
        return self.root / "home"

    def _is_covered(self, mount: Mount) -> bool:
        targets = (*(other.target for other in self._launch.mounts), *self._launch.scratch)
        return any(PurePosixPath(mount.target) in PurePosixPath(target).parents for target in targets)

    def _translate_path(self, text: str) -> str:
        # The nearest parent decides: a toolchain below /tmp keeps its path although /tmp itself is moved.
        for above in (text, *map(str, PurePosixPath(text).parents)):
            if above in self._moved_targets:
                return str(self.host_path(text))
            if above in self._unmoved_targets:
                break
        return text

    def _clear(self, target: str) -> Path:
        path = self.host_path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        return path


def _copy_tree(source: Path, path: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, path, symlinks=True, copy_function=_copy_file)
    else:
        _copy_file(str(source), str(path))


def _copy_file(source: str, path: str) -> None:
    # Not a hard link: it would change the status of a sealed file, as if somebody had touched it.
    if stat.S_ISSOCK(os.lstat(source).st_mode):
        Path(path).symlink_to(source)
    else:
        shutil.copy2(source, path, follow_symlinks=False)
