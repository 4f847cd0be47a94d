"""What nodes take on disk: folders, copies, git objects; how much that is, and how it is removed."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.git.command import GitError
from loopty.git.repository import Repository
from loopty.kit.records import Record
from loopty.record.node_record import Node
from loopty.workspaces.node_folders import NodeFolders
from loopty.workspaces.node_refs import NodeRefs
from loopty.workspaces.state_folder import StateFolder

_GRACE_SECONDS = 600
"""An object that somebody wrote again so recently may be part of a commit that no ref holds yet."""
_OURS = "refs/loopty/runs/*"


class LonelyObjects(Record):
    """Git objects that nobody needs, with their sizes on disk."""

    loose: Mapping[Path, int]
    """In files of their own, commits last."""
    packed: Mapping[str, int]
    """In loopty's packs, by name."""

    @property
    def count(self) -> int:
        return len(self.loose) + len(self.packed)

    @property
    def size(self) -> int:
        return sum(self.loose.values()) + sum(self.packed.values())


class NodeStorage:
    """The storage of nodes of one repository."""

    def __init__(self, repository: Repository, state: StateFolder) -> None:
        self._repository = repository
        self._state = state
        self._refs = NodeRefs(repository)
        self._folders = NodeFolders(state)

    def folder_bytes(self, node: NodeId) -> int:
        """Return the size of what is kept of the node, with its copy for people."""
        return self._folders.size(node)

    def remove_folders(self, node: NodeId) -> None:
        """Remove the node's folder and its copy, and what is left of a draft."""
        self._folders.remove(node)
        if (draft := self._state.draft_folder(node)).exists():
            draft.remove_all()
        self._state.draft_layout(node).remove()

    def release(self, removed: Iterable[Node], kept: Collection[str]) -> None:
        """Let git drop the commits of removed nodes, except those that other nodes have, too."""
        commits: dict[int, set[str]] = {}
        for node in removed:
            if node.commit not in kept:
                commits.setdefault(node.id.run, set()).add(node.commit)
        for run, gone in commits.items():
            self._refs.release(run, gone)

    def lonely_objects(self, removed: Collection[str], kept: Collection[str]) -> LonelyObjects:
        """Find the objects that only these removed commits need.

        Every ref, reflog, index and working tree of the repository, and every kept commit, keeps what it reaches.
        Objects in packs of the user are left to `git gc`.
        """
        try:
            names = self._lonely_names(removed, kept)
        except GitError:
            return LonelyObjects({}, {})  # another process removes some: what git cannot tell, nobody removes
        paths = {name: self._repository.graph.loose_object(name) for name in reversed(names)}
        found = {name: status for name, path in paths.items() if (status := _status(path))}
        newest = time.time() - _GRACE_SECONDS
        loose = {paths[name]: status.st_size for name, status in found.items() if status.st_mtime < newest}
        return LonelyObjects(
            loose, self._repository.packs.removable([name for name in names if name not in found])
        )

    def remove_objects(self, lonely: LonelyObjects) -> None:
        """Remove these objects, except those that somebody has written again meanwhile."""
        for path in lonely.loose:
            if (status := _status(path)) and status.st_mtime < time.time() - _GRACE_SECONDS:
                path.unlink(missing_ok=True)
        if lonely.packed:
            self._repository.packs.remove(lonely.packed)

    def _lonely_names(self, removed: Collection[str], kept: Collection[str]) -> list[str]:
        gone = self._repository.graph.objects_that_exist([commit for commit in removed if commit not in kept])
        if not gone:
            return []
        kept_here = {commit for run in self._refs.runs() for commit in self._refs.commits(run)} - set(gone)
        # Both sides are listed in full: `git rev-list` with exclusions is not exact.
        candidates = dict.fromkeys(self._repository.graph.reachable(gone))
        tips = self._repository.graph.objects_that_exist([*kept_here, *kept])
        for name in self._repository.graph.reachable(tips, everything_except=(_OURS,)):
            candidates.pop(name, None)
        return list(candidates)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
