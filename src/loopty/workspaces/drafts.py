"""Drafts: the files of a node that is edited by hand, in a directory of their own.

A draft is a whole tree, so that tests, a profiler and an editor work in place: the files that may be changed as
they are stored, the others read-only as a trial sees them.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.proposal import Edits
from loopty.git.repository import Repository
from loopty.kit import untrusted_files
from loopty.kit.contents import sha256
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath
from loopty.kit.temporary_folder import temporary_folder
from loopty.kit.untrusted_files import Unreadable
from loopty.record.node_record import Node
from loopty.workspaces.node_files import NodeFiles

_LARGEST = 64 << 20
_IGNORED_NAMES = {".git", "__pycache__"}

Contents = Mapping[str, bytes]


class Drafts:
    """The drafts of one repository."""

    def __init__(self, repository: Repository, files: NodeFiles) -> None:
        self._repository = repository
        self._files = files

    def lay_out(
        self,
        parent: Node,
        root: Node,
        folder: SafeFolder,
        layout: SafeFile,
        sparse: bool = False,
        is_shown: Callable[[str], bool] = lambda _: True,
    ) -> list[str]:
        """Write a draft below the parent; returns the files that may be changed. `sparse`: no others are written.

        `root` is the run's baseline: it has the files that no node may change. Of these, only those that are shown
        are written.
        """
        writable = self._files.writable_files(parent.commit)
        # A plain checkout: hard links would share edits, links would make Python import unchanged files, and an
        # overlay needs privileges. CPU: 0.4 s with 1,000 files, 3 s with 50,000, and 0.5 s with `sparse`.
        fixed = [] if sparse else list(filter(is_shown, self._files.files_outside_access(root.commit)))
        if folder.exists():
            raise Misuse(f"{folder.shown_path} is left from a lost ledger: move it away, then try again")
        path = folder.make().path_for_programs()
        if fixed:
            self._repository.check_out(root.commit, fixed, path)
        # A candidate may have written `.gitattributes`, and an edit is stored as it is: no filter runs here.
        self._repository.write_files(parent.commit, writable, path)
        known: dict[str, Any] = {name: digest_of(_file_at(folder, name).read()) for name in writable}
        known |= _protect(folder, set(fixed))
        layout.write(json.dumps(known).encode())
        return writable

    def edits(self, root: Node, folder: SafeFolder, layout: SafeFile) -> Edits:
        """Compare the draft with what was laid out. New files that git ignores are no part of it."""

        def same_as_committed(touched: Contents) -> Collection[str]:
            with temporary_folder("draft") as temporary:
                self._repository.check_out(root.commit, touched, Path(temporary))
                return [path for path in touched if _has_content(Path(temporary, path), touched[path])]

        def files_to_ignore(paths: Sequence[str]) -> Collection[str]:
            return self._repository.working_tree.ignored_files(folder.path_for_programs(), paths)

        return edits_in(folder, layout, same_as_committed, files_to_ignore)


def _has_content(file: Path, content: bytes) -> bool:
    return file.is_file() and not file.is_symlink() and file.read_bytes() == content


def _none(_names: Any) -> Collection[str]:
    return ()


def edits_in(
    folder: SafeFolder,
    layout: SafeFile,
    same_as_committed: Callable[[Contents], Collection[str]] = _none,
    files_to_ignore: Callable[[Sequence[str]], Collection[str]] = _none,
) -> Edits:
    """Compare the directory with what was laid out.

    `same_as_committed` says which read-only files were only touched, `files_to_ignore` which new ones git ignores.

    Raises Misuse where it, or anything in it, is a link, has a second name, or is no regular file: through a link,
    files of the user would become part of a node. Links of the commit itself stay.
    """
    try:
        if not folder.exists() or not layout.exists():
            raise Misuse(
                f"the draft's directory {folder.shown_path} is gone: make a new node with `loopty draft new`"
            )
        laid_out = untrusted_files.json_object(layout.read())
    except UnsafePath as error:
        raise Misuse(f"{error}; a draft is a directory of your own") from None
    except Unreadable as error:
        raise Misuse(f"{layout.shown_path} {error}: make a new node with `loopty draft new`") from None
    entries = dict(entries_below(folder))
    touched = [path for path, signature in entries.items() if laid_out.get(path) != signature]
    left_out = set(files_to_ignore([path for path in touched if path not in laid_out]))
    contents = {path: _content(folder, path) for path in touched if path not in left_out}
    changed = {path: content for path, content in contents.items() if laid_out.get(path) != digest_of(content)}
    fixed = {path: content for path, content in changed.items() if isinstance(laid_out.get(path), list)}
    for path in same_as_committed(fixed) if fixed else ():
        del changed[path]
    return {**changed, **{path: None for path in laid_out if path not in entries and not is_passed_over(path)}}


def _protect(folder: SafeFolder, fixed: Collection[str]) -> dict[str, list[int]]:
    """Make these files read-only; returns what identifies each of them as long as it is not changed."""
    signatures = {}
    with folder.handle() as root:
        for current, directories, names, inner in os.fwalk(".", dir_fd=root):
            for name in (*names, *directories):
                path = str(PurePosixPath(current, name))
                if path not in fixed:
                    continue
                mode = os.stat(name, dir_fd=inner, follow_symlinks=False).st_mode
                if stat.S_ISREG(mode):
                    os.chmod(name, stat.S_IMODE(mode) & 0o555, dir_fd=inner)
                signatures[path] = _signature(os.stat(name, dir_fd=inner, follow_symlinks=False))
    return signatures


def _signature(status: os.stat_result) -> list[int]:
    return [status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _file_at(folder: SafeFolder, path: str) -> SafeFile:
    *above, name = PurePosixPath(path).parts
    return folder.below(*above).file(name)


def digest_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def is_passed_over(path: str) -> bool:
    """Say whether this file of a draft is skipped: a commit may have it, but it is never an entry."""
    return not _IGNORED_NAMES.isdisjoint(path.split("/"))


def entries_below(folder: SafeFolder) -> Iterator[tuple[str, list[int]]]:
    """Yield the files and links in a draft. Each folder is opened from the one above it, so none is left."""
    with folder.handle() as root:
        for current, directories, names, inner in os.fwalk(".", onerror=_refuse_unreadable, dir_fd=root):
            directories[:] = sorted(name for name in directories if name not in _IGNORED_NAMES)
            for name in sorted((*names, *directories)):
                status = os.stat(name, dir_fd=inner, follow_symlinks=False)
                if name not in _IGNORED_NAMES and not stat.S_ISDIR(status.st_mode):
                    yield str(PurePosixPath(current, name)), _signature(status)


def _content(folder: SafeFolder, path: str) -> bytes:
    *above, name = PurePosixPath(path).parts
    shown = folder.shown_path / path
    try:
        with folder.below(*above).handle() as inner:
            content = untrusted_files.content(Path(name), _LARGEST, inner)
    except Unreadable as error:
        raise Misuse(f"{shown} {error}: only regular files can be part of a node") from None
    except OSError:
        content = None
    if content is None:
        raise Misuse(f"{shown} was removed or replaced just now: try again")
    return content


def _refuse_unreadable(error: OSError) -> None:
    # If it were silently skipped, its files would count as deleted.
    raise Misuse(f"{error.filename} of the draft cannot be read: make it readable, or delete it")
