"""Drafts: the writable files of a node that is edited by hand, in a directory of their own."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.proposal import Edits
from loopty.record.node_record import Node
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.repository import Repository
from loopty.workspaces.tree_removal import remove_tree

_LARGEST = 64 << 20
_IGNORED_NAMES = {".git", "__pycache__"}


def lay_out(repository: Repository, files: NodeFiles, parent: Node, folder: Path) -> list[str]:
    """Write the parent's writable files into a folder for editing; returns their paths."""
    writable = files.writable_files(parent.commit)
    folder.mkdir(parents=True)
    # A candidate may have written `.gitattributes`, and what is edited here is stored as it is: no filter runs.
    repository.write_files(parent.commit, writable, folder)
    laid_out = {path: _digest((folder / path).read_bytes()) for path in writable}
    _layout_file(folder).write_text(json.dumps(laid_out))
    return writable


def edits_in(folder: Path) -> Edits:
    """How the directory differs from what was laid out. Raises Misuse for links and other special files."""
    if not folder.is_dir() or not _layout_file(folder).is_file():
        raise Misuse(f"the draft's directory {folder} is gone: make a new node with `loopty new`")
    laid_out = json.loads(_layout_file(folder).read_text())
    files = dict(_files_below(folder))
    changed = {path: content for path, content in files.items() if laid_out.get(path) != _digest(content)}
    return {**changed, **{path: None for path in laid_out if path not in files}}


def remove(folder: Path) -> None:
    remove_tree(folder)
    _layout_file(folder).unlink(missing_ok=True)


def _layout_file(folder: Path) -> Path:
    """The digests of what was laid out: beside the directory, so that they are not part of the draft."""
    return folder.with_name(f"{folder.name}.json")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _files_below(folder: Path) -> list[tuple[str, bytes]]:
    files = []
    for current, directories, names in os.walk(folder, onerror=_refuse_unreadable, followlinks=False):
        directories[:] = sorted(name for name in directories if name not in _IGNORED_NAMES)
        for name in sorted(name for name in names if name not in _IGNORED_NAMES):
            path = Path(current, name)
            files.append((str(path.relative_to(folder)), _regular_content(path)))
        for name in directories:
            if Path(current, name).is_symlink():
                raise Misuse(f"{Path(current, name)} is a link: only regular files can be part of a node")
    return files


def _refuse_unreadable(error: OSError) -> None:
    # If it were silently skipped, its files would count as deleted.
    raise Misuse(f"{error.filename} cannot be read: make it readable, or delete it")


def _regular_content(path: Path) -> bytes:
    """The content of a regular file. Raises Misuse for anything else, without blocking on it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise Misuse(f"{path} is a link or not readable: only regular files can be part of a node") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise Misuse(f"{path} is not a regular file of at most {_LARGEST >> 20} MB")
        return file.read()
