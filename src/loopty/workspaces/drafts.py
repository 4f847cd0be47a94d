"""Drafts: the writable files of a node that is edited by hand, in a directory of their own."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path, PurePosixPath

from loopty.domain.errors import Misuse
from loopty.domain.proposal import Edits
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath
from loopty.record.node_record import Node
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.repository import Repository

_LARGEST = 64 << 20
_IGNORED_NAMES = {".git", "__pycache__"}


def lay_out(
    repository: Repository, files: NodeFiles, parent: Node, folder: SafeFolder, layout: SafeFile
) -> list[str]:
    """Write the parent's writable files into a folder for editing; returns their paths."""
    writable = files.writable_files(parent.commit)
    if folder.exists():
        raise Misuse(f"{folder.shown_path} is left from a lost ledger: move it away, then try again")
    repository.check_out(parent.commit, writable, folder.make().path_for_programs())
    # The files may differ from what git stores (line ends, large files), so edits are found against these digests.
    layout.write(json.dumps({path: _digest(_file_at(folder, path).read()) for path in writable}).encode())
    return writable


def edits_in(folder: SafeFolder, layout: SafeFile) -> Edits:
    """How the directory differs from what was laid out. Raises Misuse for links and other special files."""
    try:
        if not folder.exists() or not layout.exists():
            raise Misuse(f"the draft's directory {folder.shown_path} is gone: make a new node with `loopty new`")
        laid_out = json.loads(layout.read())
    except UnsafePath as error:
        raise Misuse(f"{error}; a draft is a directory of your own") from None
    files = dict(_files_below(folder))
    changed = {path: content for path, content in files.items() if laid_out.get(path) != _digest(content)}
    return {**changed, **{path: None for path in laid_out if path not in files}}


def _file_at(folder: SafeFolder, path: str) -> SafeFile:
    *above, name = PurePosixPath(path).parts
    return folder.below(*above).file(name)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _files_below(folder: SafeFolder) -> list[tuple[str, bytes]]:
    files, top = [], folder.shown_path
    with folder.handle() as descriptor:
        for current, directories, names, inner in os.fwalk(".", onerror=_refuse_unreadable, dir_fd=descriptor):
            directories[:] = sorted(name for name in directories if name not in _IGNORED_NAMES)
            for name in sorted(name for name in names if name not in _IGNORED_NAMES):
                path = PurePosixPath(current, name)
                files.append((str(path), _regular_content(name, inner, top / path)))
            for name in directories:
                if stat.S_ISLNK(os.stat(name, dir_fd=inner, follow_symlinks=False).st_mode):
                    raise Misuse(f"{top / current / name} is a link: only regular files can be part of a node")
    return files


def _refuse_unreadable(error: OSError) -> None:
    # If it were silently skipped, its files would count as deleted.
    raise Misuse(f"{error.filename} of the draft cannot be read: make it readable, or delete it")


def _regular_content(name: str, folder: int, path: Path) -> bytes:
    """The content of a regular file. Raises Misuse for anything else, without blocking on it."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        raise Misuse(f"{path} is a link or not readable: only regular files can be part of a node") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise Misuse(f"{path} is not a regular file of at most {_LARGEST >> 20} MB")
        return file.read()
