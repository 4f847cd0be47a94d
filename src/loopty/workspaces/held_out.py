"""The held-out split of a run: what it is made of, and where the search could have seen it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

from loopty.domain.errors import Misuse
from loopty.domain.task import Audit, Benchmark, digest
from loopty.kit import globs
from loopty.workspaces import seals
from loopty.workspaces.git_objects import REGULAR_FILES, TreeEntry
from loopty.workspaces.repository import Repository

# Shorter lines, and lines of few different characters, stand in many files by chance.
_DISTINCTIVE_LENGTH = 24
_DISTINCTIVE_CHARACTERS = 6
# So much is read in search of the split: who copies it copies what is in its first megabytes, too.
_MAX_FILES = 256
_MAX_BYTES = 8 << 20
_MAX_ADDED_CHARACTERS = 256 << 10
_MAX_PATHS_NAMED = 3


class HeldOutSplit:
    """The split as it is at the baseline of a run, and on the host."""

    def __init__(
        self, repository: Repository, audit: Audit, benchmark: Benchmark, commit: str, shown: Callable[[str], bool]
    ) -> None:
        """`commit` is the baseline's; `shown` tells whether the search sees a path."""
        self._repository = repository
        self._audit = audit
        self._benchmark = benchmark
        self._commit = commit
        self._is_shown = shown

    @cached_property
    def digest(self) -> str:
        """Of the command, the files at the baseline and the data: under another one nothing is comparable."""
        files = {path: [entry.mode, entry.blob] for path, entry in sorted(self._files.items())}
        if self._audit.files and not files:
            raise Misuse(f"audit.files names nothing that the run began with ({', '.join(self._audit.files)})")
        if absent := [name for name in self._audit.data if name not in self._data]:
            raise Misuse(f"audit.data names {', '.join(absent)}, which is not there: make it, or do not name it")
        return digest([self._audit.command, files, seals.data_digest(self._repository.top, self._audit.data)])

    def leaks(self, commit: str) -> list[str]:
        """Where the search could see the split, or a node's commit holds some of it: a sentence for each."""
        return [*self._exposures(), *self._copies(commit), *self._quotes(commit)]

    @cached_property
    def _files(self) -> Mapping[str, TreeEntry]:
        listing = self._repository.files(self._commit)
        return {path: entry for path, entry in listing.items() if globs.matches(path, self._audit.files)}

    @cached_property
    def _data(self) -> Mapping[str, Path]:
        """The data that there is on this host, by the name that the task gives it."""
        places = {name: self._host_path(name) for name in self._audit.data}
        return {name: place for name, place in places.items() if place.exists()}

    def _host_path(self, stated: str) -> Path:
        return Path(os.path.normpath(self._repository.top / Path(stated).expanduser())).resolve()

    def _exposures(self) -> Iterator[str]:
        """What of the split the search is shown by the host, or by the repository."""
        top = self._repository.top.resolve()
        places = {**self._data, **{path: top / path for path in self._files}}
        for key, stated in (("data", self._benchmark.data), ("mounts", self._benchmark.mounts)):
            for path in stated:
                host = self._host_path(path)
                if name := next((name for name, place in places.items() if _overlap(host, place)), None):
                    yield f"the search is shown {name}, too: benchmark.{key} names {path}"
        for name, place in self._data.items():
            inside = place.relative_to(top).as_posix() if place.is_relative_to(top) else ""
            listed = self._repository.files(self._commit, (inside,)) if inside else ()
            if any(map(self._is_shown, listed)):
                yield f"{name} is among the files that the search sees: name it under audit.files"

    def _copies(self, commit: str) -> Iterator[str]:
        """Files that the search sees and that are the same as a held-out one."""
        held_out = {entry.blob: path for path, entry in self._files.items() if entry.mode in REGULAR_FILES}
        listing = self._repository.files(commit)
        copies = [(path, entry.blob) for path, entry in listing.items() if entry.blob in held_out]
        for path, blob in copies:
            if path in self._files or not self._is_shown(path):
                continue
            if len(self._repository.blob(blob).strip()) >= _DISTINCTIVE_LENGTH:
                yield f"{path}, which the search sees, is the same as the held-out {held_out[blob]}"

    def _quotes(self, commit: str) -> Iterator[str]:
        """Lines of the split that stand in what the node's change adds."""
        added = {path: text for path, text in self._added_lines(commit) if text}
        starts = {
            text[at : at + _DISTINCTIVE_LENGTH]
            for text in added.values()
            for at in range(len(text) - _DISTINCTIVE_LENGTH + 1)
        }
        for name, content in self._contents() if added else ():
            # By their start first: a look for each line in all of the text would take minutes.
            likely = [line for line in _distinctive_lines(content) if line[:_DISTINCTIVE_LENGTH] in starts]
            quoted = [line for line in likely if any(line in text for text in added.values())]
            quoted = [line for line in quoted if line not in self._baseline_lines]
            if quoted:
                places = [path for path, text in added.items() if any(line in text for line in quoted)]
                more = f" and {len(places) - _MAX_PATHS_NAMED} more" if len(places) > _MAX_PATHS_NAMED else ""
                count = f"{len(quoted)} line{'s' * (len(quoted) > 1)} of the held-out {name}"
                yield f"{', '.join(places[:_MAX_PATHS_NAMED])}{more} quote{'s' * (len(places) == 1)} {count}"

    def _added_lines(self, commit: str) -> Iterator[tuple[str, str]]:
        """The lines that are new in each file, as one text."""
        changes = [
            (change.path, change.before, change.after)
            for change in self._repository.changes(self._commit, commit)
            if change.after and change.after.mode in REGULAR_FILES
        ]
        left = _MAX_ADDED_CHARACTERS
        for path, before, after in changes[:_MAX_FILES]:
            old = _distinctive_lines(self._repository.blob(before.blob)) if before else set()
            text = "\n".join(sorted(_distinctive_lines(self._repository.blob(after.blob)) - old))[:left]
            left -= len(text)
            yield path, text

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        """The split's own files and data, as much of them as is read."""
        blobs = ((path, self._repository.blob(entry.blob)) for path, entry in _regular_files(self._files.items()))
        host = ((str(path), _read_head(path)) for place in self._data.values() for path in _files_at(place))
        yield from _up_to_limits(blobs)
        yield from _up_to_limits(host)

    @cached_property
    def _baseline_lines(self) -> set[str]:
        """Lines that the baseline showed to the search: a header that all data has is no leak.

        Read first are files of the kinds that the split is made of.
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


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _distinctive_lines(content: bytes) -> set[str]:
    """The lines of a text that hardly stand in another one by chance."""
    if b"\0" in content:
        return set()
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    return {
        line for line in lines if len(line) >= _DISTINCTIVE_LENGTH and len(set(line)) >= _DISTINCTIVE_CHARACTERS
    }


def _regular_files(listing: Iterable[tuple[str, TreeEntry]]) -> list[tuple[str, TreeEntry]]:
    return [(path, entry) for path, entry in listing if entry.mode in REGULAR_FILES]


def _up_to_limits(contents: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    left = _MAX_BYTES
    for _, (name, content) in zip(range(_MAX_FILES), contents, strict=False):
        yield name, content[:left]
        left -= len(content)
        if left <= 0:
            return


def _files_at(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, inner, names in os.walk(place):
        inner.sort()
        yield from (Path(folder, name) for name in sorted(names) if Path(folder, name).is_file())


def _read_head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES)
