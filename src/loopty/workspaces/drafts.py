"""Drafts: the writable files of a node that is edited by hand, in a directory of their own."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.proposal import Edits
from loopty.kit import untrusted_files
from loopty.kit.untrusted_files import Unreadable
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
    """How the directory differs from what was laid out.

    Raises Misuse where it, or anything in it, is a link, has a second name, or is no regular file: through a link,
    files of the user would become part of a node.
    """
    if not folder.is_dir() or not _layout_file(folder).is_file():
        raise Misuse(f"the draft's directory {folder} is gone: make a new node with `loopty new`")
    with _open_folder(folder.parent) as above, _open_folder(folder, above) as root:
        try:
            layout = untrusted_files.content(Path(_layout_file(folder).name), _LARGEST, above)
            laid_out = untrusted_files.json_object(layout or b"{}")
        except Unreadable as error:
            raise Misuse(f"{_layout_file(folder)} {error}: make a new node with `loopty new`") from None
        files = dict(_files_below(folder, root))
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


@contextmanager
def _open_folder(folder: Path, above: int | None = None) -> Iterator[int]:
    """The descriptor of a folder that is not a link; `above` is that of the folder above it."""
    name = folder if above is None else folder.name
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:
        raise Misuse(
            f"{folder} is a link, or cannot be read: drafts are edited in their own folders, "
            "so make a new node with `loopty new`"
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _files_below(folder: Path, root: int) -> Iterator[tuple[str, bytes]]:
    """The files in a draft. Each folder is opened once, from the one above it, so that none is left meanwhile."""
    for current, directories, names, descriptor in os.fwalk(".", onerror=_refuse_unreadable, dir_fd=root):
        directories[:] = sorted(name for name in directories if name not in _IGNORED_NAMES)
        for name in sorted(name for name in names if name not in _IGNORED_NAMES):
            path = os.path.normpath(f"{current}/{name}")
            try:
                content = untrusted_files.content(Path(name), _LARGEST, descriptor)
            except Unreadable as error:
                raise Misuse(f"{folder / path} {error}: only regular files can be part of a node") from None
            if content is not None:
                yield path, content
        for name in directories:
            if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise Misuse(f"{folder / current / name} is a link: only regular files can be part of a node")


def _refuse_unreadable(error: OSError) -> None:
    # If it were silently skipped, its files would count as deleted.
    raise Misuse(f"{error.filename} cannot be read: make it readable, or delete it")
