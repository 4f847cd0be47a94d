"""Nodes edited by hand: what may be written lies in a directory of its own, until it is harvested."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.proposal import Edits
from loopty.record.node_record import Node
from loopty.workspaces.node_files import Files
from loopty.workspaces.repository import Repository
from loopty.workspaces.tree_removal import removed

_LARGEST = 64 << 20
_DROPPED = {".git", "__pycache__"}


def opened(repository: Repository, files: Files, parent: Node, folder: Path) -> list[str]:
    """Lay the parent's writable files out for editing; their paths."""
    writable = files.writable(parent.commit)
    folder.mkdir(parents=True)
    repository.check_out(parent.commit, writable, folder)
    # What lies there may differ from what git stores (line ends, large files): changes are seen against this.
    laid_out = {path: _digest((folder / path).read_bytes()) for path in writable}
    _laid_out(folder).write_text(json.dumps(laid_out))
    return writable


def harvested(folder: Path) -> Edits:
    """How the directory differs from what was laid out. Regular files only, no link is followed."""
    if not folder.is_dir() or not _laid_out(folder).is_file():
        raise Misuse(f"the draft's directory {folder} is gone: make a new node with `loopty new`")
    laid_out = json.loads(_laid_out(folder).read_text())
    found = dict(_walk(folder))
    changed = {path: content for path, content in found.items() if laid_out.get(path) != _digest(content)}
    return {**changed, **{path: None for path in laid_out if path not in found}}


def closed(folder: Path) -> None:
    removed(folder)
    _laid_out(folder).unlink(missing_ok=True)


def _laid_out(folder: Path) -> Path:
    """Beside the directory, so that it is no part of the draft."""
    return folder.with_name(f"{folder.name}.json")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _walk(folder: Path) -> list[tuple[str, bytes]]:
    found = []
    for here, directories, names in os.walk(folder, onerror=_refuse, followlinks=False):
        directories[:] = sorted(name for name in directories if name not in _DROPPED)
        for name in sorted(name for name in names if name not in _DROPPED):
            path = Path(here, name)
            found.append((str(path.relative_to(folder)), _regular(path)))
        for name in directories:
            if Path(here, name).is_symlink():
                raise Misuse(f"{Path(here, name)} is a link: only regular files can be part of a node")
    return found


def _refuse(error: OSError) -> None:
    # Passed over in silence, its files would count as deleted.
    raise Misuse(f"{error.filename} cannot be read: make it readable, or delete it")


def _regular(path: Path) -> bytes:
    """The content of a regular file; anything else is refused without being opened for long."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise Misuse(f"{path} is a link or not readable: only regular files can be part of a node") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise Misuse(f"{path} is not a regular file of at most {_LARGEST >> 20} MB")
        return file.read()
