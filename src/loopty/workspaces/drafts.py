"""Drafts: the writable files of a node that is edited by hand, in a directory of their own."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from loopty.domain.errors import Misuse
from loopty.domain.proposal import Edits
from loopty.kit import untrusted_files
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable
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
    # A candidate may have written `.gitattributes`, and what is edited here is stored as it is: no filter runs.
    repository.write_files(parent.commit, writable, folder.make().path_for_programs())
    layout.write(json.dumps({path: _digest(_file_at(folder, path).read()) for path in writable}).encode())
    return writable


def edits_in(folder: SafeFolder, layout: SafeFile) -> Edits:
    """How the directory differs from what was laid out.

    Raises Misuse where it, or anything in it, is a link, has a second name, or is no regular file: through a link,
    files of the user would become part of a node.
    """
    try:
        if not folder.exists() or not layout.exists():
            raise Misuse(f"the draft's directory {folder.shown_path} is gone: make a new node with `loopty new`")
        laid_out = untrusted_files.json_object(layout.read())
    except UnsafePath as error:
        raise Misuse(f"{error}; a draft is a directory of your own") from None
    except Unreadable as error:
        raise Misuse(f"{layout.shown_path} {error}: make a new node with `loopty new`") from None
    files = dict(_files_below(folder))
    changed = {path: content for path, content in files.items() if laid_out.get(path) != _digest(content)}
    return {**changed, **{path: None for path in laid_out if path not in files}}


def _file_at(folder: SafeFolder, path: str) -> SafeFile:
    *above, name = PurePosixPath(path).parts
    return folder.below(*above).file(name)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _files_below(folder: SafeFolder) -> Iterator[tuple[str, bytes]]:
    """The files in a draft. Each folder is opened once, from the one above it, so that none is left meanwhile."""
    with folder.handle() as root:
        for current, directories, names, inner in os.fwalk(".", onerror=_refuse_unreadable, dir_fd=root):
            directories[:] = sorted(name for name in directories if name not in _IGNORED_NAMES)
            for name in sorted(name for name in names if name not in _IGNORED_NAMES):
                path = PurePosixPath(current, name)
                try:
                    content = untrusted_files.content(Path(name), _LARGEST, inner)
                except Unreadable as error:
                    shown = folder.shown_path / path
                    raise Misuse(f"{shown} {error}: only regular files can be part of a node") from None
                if content is not None:
                    yield str(path), content
            for name in directories:
                if stat.S_ISLNK(os.stat(name, dir_fd=inner, follow_symlinks=False).st_mode):
                    shown = folder.shown_path / current / name
                    raise Misuse(f"{shown} is a link: only regular files can be part of a node")


def _refuse_unreadable(error: OSError) -> None:
    # If it were silently skipped, its files would count as deleted.
    raise Misuse(f"{error.filename} of the draft cannot be read: make it readable, or delete it")
