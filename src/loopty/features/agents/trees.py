"""The tree in which a coding agent works: a whole copy, of which only the writable folders can be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from loopty.domain.errors import LooptyError
from loopty.domain.launch import Mount
from loopty.domain.proposal import Edits
from loopty.git.repository import Repository
from loopty.kit import untrusted_files
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.kit.untrusted_files import Unreadable
from loopty.record.node_record import Node
from loopty.workspaces.drafts import Drafts, digest_of, entries_below, is_passed_over
from loopty.workspaces.node_files import NodeFiles

_LARGEST = 16 << 20
_MAX_BYTES = 64 << 20
_MAX_FILES = 10_000


class Harvest(Record):
    """What an agent changed."""

    edits: Edits
    left_out: tuple[str, ...]
    """Files that it changed, added or deleted and may not."""
    fault: str = ""
    """Why its files cannot be taken; empty where they can."""


class AgentTrees:
    """Lays out the trees of agents, and reads what they changed."""

    def __init__(self, repository: Repository, files: NodeFiles, trial_owner: tuple[int, int] | None) -> None:
        self._repository = repository
        self._files = files
        self._trial_owner = trial_owner

    def lay_out(self, parent: Node, root: Node, folder: SafeFolder, layout: SafeFile) -> None:
        """Write the files of a node, as far as an agent may see them."""
        is_shown = self._files.is_shown_to_agents
        writable = Drafts(self._repository, self._files).lay_out(parent, root, folder, layout, is_shown=is_shown)
        for name in self._files.writable_folders(root.commit):
            folder.below(*PurePosixPath(name).parts).make()
        self._hand_over(folder, set(writable))

    def mounts(self, root: Node, folder: SafeFolder, target: str) -> tuple[Mount, ...]:
        """Mount the tree: read-only, with the writable folders over it."""
        folder = folder.written_by(self._trial_owner[0] if self._trial_owner else None)
        top, writable = folder.path_for_programs(), self._files.writable_folders(root.commit)
        if "" in writable:
            return (Mount(top, target, writable=True),)
        # Folders, not files: editors replace a file by renaming, so one file cannot be mounted alone.
        return (
            Mount(top, target),
            *(Mount(_folder_in(folder, name), f"{target}/{name}", writable=True) for name in writable),
        )

    def writable_files(self, commit: str) -> list[str]:
        """List the files that the agent may change."""
        return self._files.writable_files(commit)

    def harvest(self, folder: SafeFolder, layout: SafeFile) -> Harvest:
        """Find how the tree differs from what was laid out. New files that git ignores are no part of it."""
        try:
            return self._harvest(folder, layout)
        except (LooptyError, Unreadable, OSError) as error:  # the agent may have left anything
            return Harvest({}, (), str(error))

    def _harvest(self, folder: SafeFolder, layout: SafeFile) -> Harvest:
        laid_out = untrusted_files.json_object(layout.read())
        tree = folder.written_by(self._trial_owner[0] if self._trial_owner else None)
        entries = dict(entries_below(tree))
        touched = [path for path, signature in entries.items() if laid_out.get(path) != signature]
        touched += [path for path in laid_out if path not in entries and not is_passed_over(path)]
        new = [path for path in touched if path not in laid_out]
        ignored = set(self._repository.working_tree.ignored_files(tree.path_for_programs(), new))
        edits: dict[str, bytes | None] = {}
        left_out, size = [], 0
        for path in touched:
            if path in ignored:
                continue
            if not self._files.may_change(path):
                left_out.append(path)
                continue
            try:
                content = _content(tree, path) if path in entries else None
            except Unreadable as error:
                raise Unreadable(f"{path} {error}") from None
            if content is None or laid_out.get(path) != digest_of(content):
                edits[path] = content
                size += len(content or b"")
            if size > _MAX_BYTES or len(edits) > _MAX_FILES:
                raise Unreadable(f"the change has more than {_MAX_BYTES >> 20} MB or {_MAX_FILES} files")
        return Harvest(edits, tuple(sorted(left_out)))

    def _hand_over(self, folder: SafeFolder, writable: set[str]) -> None:
        """Give the agent's user every folder and the writable files; the others stay ours."""
        if not self._trial_owner:
            return
        with folder.handle() as top:
            for current, _, names, inner in os.fwalk(".", dir_fd=top):
                os.fchown(inner, *self._trial_owner)
                for name in _names_among(current, names, writable):
                    os.chown(name, *self._trial_owner, dir_fd=inner, follow_symlinks=False)


def _folder_in(folder: SafeFolder, name: str) -> Path:
    return folder.below(*PurePosixPath(name).parts).path_for_programs()


def _names_among(current: str, names: list[str], paths: set[str]) -> Iterator[str]:
    return (name for name in names if str(PurePosixPath(current, name)) in paths)


def _content(folder: SafeFolder, path: str) -> bytes:
    *above, name = PurePosixPath(path).parts
    try:
        with folder.below(*above).handle() as inner:
            found = untrusted_files.content(Path(name), _LARGEST, inner)
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror})") from None
    if found is None:
        raise Unreadable("was removed just now")
    return found
