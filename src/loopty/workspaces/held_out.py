"""The held-out split of a run: its content, and where the search could have seen it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

from loopty.domain.benchmark import Benchmark
from loopty.domain.errors import Misuse
from loopty.domain.task import Audit, digest
from loopty.git.objects import REGULAR_FILES, TreeEntry
from loopty.git.repository import Repository
from loopty.kit import paths
from loopty.workspaces import seals

# Shorter lines, and lines of few different characters, occur in many files by chance.
_DISTINCTIVE_LENGTH = 24
_DISTINCTIVE_CHARACTERS = 6
# Limits of the search for leaks: a copy of the split includes its first megabytes, too.
_MAX_FILES = 256
_MAX_BYTES = 8 << 20
_MAX_ADDED_CHARACTERS = 256 << 10
_MAX_PATHS_NAMED = 3


class HeldOutSplit:
    """The split: its files at the baseline of a run, and its data on the host."""

    def __init__(
        self,
        repository: Repository,
        audit: Audit,
        benchmark: Benchmark,
        commit: str,
        is_shown: Callable[[str], bool],
    ) -> None:
        """`commit` is the baseline's commit; `is_shown` says whether the search sees a path."""
        self._repository = repository
        self._audit = audit
        self._benchmark = benchmark
        self._commit = commit
        self._is_shown = is_shown

    @cached_property
    def digest(self) -> str:
        """Over the command, the files at the baseline and the data: only results of one digest are comparable."""
        files = {path: [entry.mode, entry.blob] for path, entry in sorted(self._files.items())}
        if self._audit.files and not files:
            raise Misuse(f"audit.files names no file of the run's baseline ({', '.join(self._audit.files)})")
        if missing := [name for name in self._audit.data if name not in self._data]:
            raise Misuse(
                f"audit.data names {', '.join(missing)}, which does not exist: create it, or do not name it"
            )
        return digest([self._audit.command, files, seals.data_digest(self._repository.top, self._audit.data)])

    def leaks(self, commit: str) -> list[str]:
        """Say where the search could see the split or a node's commit has part of it: one sentence each."""
        return [*self._exposures(), *self._copies(commit), *self._quotes(commit)]

    @cached_property
    def _files(self) -> Mapping[str, TreeEntry]:
        listing = self._repository.files(self._commit)
        return {path: entry for path, entry in listing.items() if paths.matches(path, self._audit.files)}

    @cached_property
    def _data(self) -> Mapping[str, Path]:
        """Map the names of data in the task to what exists on this host."""
        paths = {name: self._host_path(name) for name in self._audit.data}
        return {name: path for name, path in paths.items() if path.exists()}

    def _host_path(self, path: str) -> Path:
        return Path(os.path.normpath(self._repository.top / Path(path).expanduser())).resolve()

    def _exposures(self) -> Iterator[str]:
        """Parts of the split that the host or the repository shows to the search."""
        top = self._repository.top.resolve()
        split_paths = {**self._data, **{path: top / path for path in self._files}}
        for key, names in (("data", self._benchmark.data), ("mounts", self._benchmark.mounts)):
            for path in names:
                host = self._host_path(path)
                if name := next(
                    (name for name, split_path in split_paths.items() if _are_nested(host, split_path)), None
                ):
                    yield f"the search sees {name}, too: benchmark.{key} names {path}"
        for name, split_path in self._data.items():
            inside = split_path.relative_to(top).as_posix() if split_path.is_relative_to(top) else ""
            tracked = self._repository.files(self._commit, (inside,)) if inside else ()
            if any(map(self._is_shown, tracked)):
                yield f"{name} is among the files that the search sees: name it under audit.files"

    def _copies(self, commit: str) -> Iterator[str]:
        """Yield files that the search sees and that are identical to a held-out file."""
        held_out = {entry.blob: path for path, entry in self._files.items() if entry.mode in REGULAR_FILES}
        listing = self._repository.files(commit)
        copies = [(path, entry.blob) for path, entry in listing.items() if entry.blob in held_out]
        for path, blob in copies:
            if path in self._files or not self._is_shown(path):
                continue
            if len(self._repository.blob(blob).strip()) >= _DISTINCTIVE_LENGTH:
                yield f"{path}, which the search sees, is identical to the held-out {held_out[blob]}"

    def _quotes(self, commit: str) -> Iterator[str]:
        """Yield lines of the split among the lines that the node adds."""
        added = {path: text for path, text in self._new_lines(commit) if text}
        starts = {
            text[at : at + _DISTINCTIVE_LENGTH]
            for text in added.values()
            for at in range(len(text) - _DISTINCTIVE_LENGTH + 1)
        }
        for name, content in self._contents() if added else ():
            # Lines are filtered by their start first: searching the whole text for each line would take minutes.
            candidates = [line for line in _distinctive_lines(content) if line[:_DISTINCTIVE_LENGTH] in starts]
            quoted = [line for line in candidates if any(line in text for text in added.values())]
            quoted = [line for line in quoted if line not in self._baseline_lines]
            if quoted:
                quoting = [path for path, text in added.items() if any(line in text for line in quoted)]
                more = f" and {len(quoting) - _MAX_PATHS_NAMED} more" if len(quoting) > _MAX_PATHS_NAMED else ""
                count = f"{len(quoted)} line{'s' * (len(quoted) > 1)} of the held-out {name}"
                yield f"{', '.join(quoting[:_MAX_PATHS_NAMED])}{more} quote{'s' * (len(quoting) == 1)} {count}"

    def _new_lines(self, commit: str) -> Iterator[tuple[str, str]]:
        """Yield the new lines of each changed file, as one text."""
        changes = [
            (change.path, change.before, change.after)
            for change in self._repository.changes(self._commit, commit)
            if change.after and change.after.mode in REGULAR_FILES
        ]
        remaining = _MAX_ADDED_CHARACTERS
        for path, before, after in changes[:_MAX_FILES]:
            old = _distinctive_lines(self._repository.blob(before.blob)) if before else set()
            text = "\n".join(sorted(_distinctive_lines(self._repository.blob(after.blob)) - old))[:remaining]
            remaining -= len(text)
            yield path, text

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files and the data of the split, up to the limits."""
        blobs = ((path, self._repository.blob(entry.blob)) for path, entry in _regular_files(self._files.items()))
        host = (
            (str(path), _read_head(path)) for data_path in self._data.values() for path in _files_at(data_path)
        )
        yield from _up_to_limits(blobs)
        yield from _up_to_limits(host)

    @cached_property
    def _baseline_lines(self) -> set[str]:
        """Collect lines that the baseline shows to the search: a header that all data has is not a leak.

        Files of the same kinds as the split are read first.
        """
        kinds = {PurePosixPath(path).suffix for path in (*self._files, *self._audit.data)}
        listing = self._repository.files(self._commit)
        shown = [
            item
            for item in _regular_files(listing.items())
            if self._is_shown(item[0]) and item[0] not in self._files
        ]
        shown.sort(key=lambda item: PurePosixPath(item[0]).suffix not in kinds)
        blobs = ((path, self._repository.blob(entry.blob)) for path, entry in shown)
        return {line for _, content in _up_to_limits(blobs) for line in _distinctive_lines(content)}


def _are_nested(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _distinctive_lines(content: bytes) -> set[str]:
    """Select the lines of a text that are unlikely to occur in another text by chance."""
    if b"\0" in content:
        return set()
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    return {
        line for line in lines if len(line) >= _DISTINCTIVE_LENGTH and len(set(line)) >= _DISTINCTIVE_CHARACTERS
    }


def _regular_files(listing: Iterable[tuple[str, TreeEntry]]) -> list[tuple[str, TreeEntry]]:
    return [(path, entry) for path, entry in listing if entry.mode in REGULAR_FILES]


def _up_to_limits(contents: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    remaining = _MAX_BYTES
    for _, (name, content) in zip(range(_MAX_FILES), contents, strict=False):
        yield name, content[:remaining]
        remaining -= len(content)
        if remaining <= 0:
            return


def _files_at(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for folder, inner, names in os.walk(path):
        inner.sort()
        yield from (Path(folder, name) for name in sorted(names) if Path(folder, name).is_file())


def _read_head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES)
