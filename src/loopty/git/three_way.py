"""Brings the changes of two commits onto their common ancestor, file by file, by `git merge-file`.

Not by `git merge`: that would consult `.gitattributes`, which a candidate may have written, for the user's own
merge programs.
"""

from __future__ import annotations

from pathlib import Path

from loopty.git.command import GitError
from loopty.git.objects import REGULAR_FILES, TreeEntry
from loopty.git.repository import Repository
from loopty.kit.records import Record
from loopty.kit.temporary_folder import temporary_folder

_LABELS = ("ours", "base", "theirs")
_MOST_CONFLICTS = 127
"""The exit status of `git merge-file` is the number of conflicts up to this; above, an error."""


class MergedFiles(Record):
    """What has to change in one of the two commits so that it holds the changes of both."""

    edits: dict[str, bytes | None]
    """By path; None deletes."""
    conflicts: tuple[str, ...]
    """Paths with conflicts: marked in the text, or as the first commit has them where that is impossible."""


def merge_files(repository: Repository, base: str, ours: str, theirs: str, names: tuple[str, str]) -> MergedFiles:
    """Merge the changes from `base` to `theirs` into `ours`; `names` are shown at the marks of conflicts."""
    mine = {change.path: change.after for change in repository.changes(base, ours)}
    edits: dict[str, bytes | None] = {}
    conflicts = []
    for change in repository.changes(base, theirs):
        path, after = change.path, change.after
        if after and after.mode not in REGULAR_FILES:
            conflicts.append(path)
        elif path not in mine:
            edits[path] = repository.blob(after.blob) if after else None
        elif mine[path] != after:
            merged, is_clean = _merge(repository, change.before, mine[path], after, names)
            if merged is not None:
                edits[path] = merged
            if not is_clean:
                conflicts.append(path)
    return MergedFiles(edits, tuple(conflicts))


def _merge(
    repository: Repository,
    base: TreeEntry | None,
    ours: TreeEntry | None,
    theirs: TreeEntry | None,
    names: tuple[str, str],
) -> tuple[bytes | None, bool]:
    """Return the merged content and whether it has no conflict; no content if one of them deleted the file."""
    if ours is None or theirs is None or ours.mode not in REGULAR_FILES:
        return None, False
    contents = [repository.blob(entry.blob) if entry else b"" for entry in (ours, base, theirs)]
    labels = [option for name in (names[0], "their common ancestor", names[1]) for option in ("-L", name)]
    with temporary_folder("merge") as folder:
        files = [Path(folder, label) for label in _LABELS]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
        try:
            repository.git.run("merge-file", "--quiet", "--diff3", *labels, *map(str, files))
        except GitError as error:
            if not 0 < error.code <= _MOST_CONFLICTS:  # binary content, for example
                return None, False
            return files[0].read_bytes(), False
        return files[0].read_bytes(), True
