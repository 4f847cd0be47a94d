"""The files of one commit, looked up by path: a commit may have fifty thousand, and a benchmark few."""

from __future__ import annotations

from loopty.workspaces.git_objects import DIRECTORY, TreeEntry
from loopty.workspaces.repository import Repository


class CommitFiles:
    """Files, links and submodules by path; only the directories on the way to a path are read."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._commit = commit

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._find(path) is not None

    def __getitem__(self, path: str) -> TreeEntry:
        entry = self._find(path)
        if entry is None:
            raise KeyError(path)
        return entry

    def _find(self, path: str) -> TreeEntry | None:
        entry = self._repository.entries(self._commit, [path]).get(path)
        return entry if entry and entry.mode != DIRECTORY else None
