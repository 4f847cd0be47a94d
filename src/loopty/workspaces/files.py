"""The files of nodes: what may change, commits, branches, and each node's folder."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from loopty.core import globs
from loopty.core.history import History, Node
from loopty.core.markers import outside_changed
from loopty.core.parts import Committed
from loopty.core.proposal import Edits
from loopty.core.task import Task
from loopty.workspaces.repository import REGULAR_FILES, Entry, Repository
from loopty.workspaces.state import State


class Files:
    """Implements the Workspaces protocol over a git repository and its `.loopty/` folder."""

    def __init__(self, repository: Repository, state: State, task: Task) -> None:
        self._repository = repository
        self._state = state
        self._task = task

    def benchmark_files(self, commit: str) -> list[str]:
        """What the benchmark is made of: as the task says, else what its command names and nobody may write."""
        listing = self._repository.listing(commit)
        if self._task.benchmark.files:
            return [path for path in listing if globs.matches(path, self._task.benchmark.files)]
        command = self._task.benchmark.command
        words = _words(command) if isinstance(command, str) else command
        named = (word.removeprefix("./") for word in words)
        return [path for path in named if path in listing and not self._task.access.writable(path)]

    def benchmark_digest(self, commit: str) -> str:
        """A digest of the benchmark's files: when it changes, old results are not comparable."""
        listing = self._repository.listing(commit)
        stated = [f"{path} {listing[path].mode} {listing[path].blob}" for path in self.benchmark_files(commit)]
        return hashlib.sha256("\n".join(sorted(stated)).encode(errors="surrogateescape")).hexdigest()

    def writable(self, commit: str) -> list[str]:
        """The regular files that a proposal may change."""
        frozen = set(self.benchmark_files(commit))
        return [
            path
            for path, entry in self._repository.listing(commit).items()
            if entry.mode in REGULAR_FILES and path not in frozen and self._task.access.writable(path)
        ]

    def text(self, commit: str, path: str) -> str | None:
        """A file as text; None when it is not text."""
        try:
            return self._repository.content(commit, path).decode()
        except UnicodeDecodeError:
            return None

    def refusal(self, parent: Node, edits: Edits) -> str | None:
        if not edits:
            return None
        if reason := self._task.access.refusal(edits):
            return reason
        listing = self._repository.listing(parent.commit)
        frozen = set(self.benchmark_files(parent.commit))
        taken = {*listing, *edits, *(f"{path}/" for path in self._task.benchmark.scratch)}
        for path, content in edits.items():
            if path in frozen or globs.matches(path, self._task.benchmark.files):
                return f"may not change {path}: it is part of the benchmark"
            if reason := _misplaced(path, listing, taken):
                return reason
            if path in listing and (reason := self._outside_markers(parent, path, content)):
                return reason
        return None

    def _outside_markers(self, parent: Node, path: str, content: str | bytes | None) -> str | None:
        before = self.text(parent.commit, path)
        if before is None:
            return None
        after = content.decode(errors="replace") if isinstance(content, bytes) else content or ""
        try:
            reason = outside_changed(before, after)
        except ValueError as error:
            reason = str(error)
        return f"{path}: {reason}" if reason else None

    def commit(self, parent: Node, edits: Edits, message: str) -> Committed:
        if not edits:
            return Committed(parent.commit, parent.tree)
        return self._repository.commit(
            parent.commit, edits, self._repository.listing(parent.commit), f"{message}\n"
        )

    def publish(self, node: Node, parent: Node | None) -> None:
        folder = self._state.node(node.id)
        if (folder / "description.md").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._repository.branch(node.id.branch, node.commit)
        (folder / "params.json").write_text(json.dumps(dict(node.params), indent=2) + "\n")
        changed = parent is not None and parent.commit != node.commit
        patch = self._repository.patch(parent.commit, node.commit) if parent and changed else b""
        (folder / "change.diff").write_bytes(patch)
        # Last, because its presence says that the rest is there.
        _publish_text(folder / "description.md", f"# {node.id}\n\n{node.operator}: {node.summary}\n")

    def conclude(self, node: Node, history: History) -> None:
        """Write the analysis: what was measured, and what was decided and why."""
        lines = [f"# {node.id}: {node.verdict}", "", node.reason, ""]
        best = history.runs[node.id.run].account(node.pool).best
        compared = {"baseline": history.runs[node.id.run].root, "before": node.against, "best": best}
        columns = {name: history[other] for name, other in compared.items() if other}
        if node.outcome and node.outcome.metrics:
            lines += [f"| metric | {node.id} | {' | '.join(f'{k} {n.id}' for k, n in columns.items())} |"]
            lines += ["|---" * (2 + len(columns)) + "|"]
            for name, value in node.outcome.metrics.items():
                others = (n.outcome.metrics.get(name) if n.outcome else None for n in columns.values())
                cells = " | ".join("–" if other is None else f"{other:g}" for other in others)
                lines.append(f"| {name} | {value:g} | {cells} |")
        _publish_text(self._state.node(node.id) / "analysis.md", "\n".join(lines) + "\n")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a shell line that only the shell can read names no files for us
        return command.split()


def _misplaced(path: str, listing: Mapping[str, Entry], taken: Collection[str]) -> str | None:
    """Why a file cannot stand at this path, or None: it would replace what is not a plain file."""
    entry = listing.get(path)
    if entry is not None and entry.mode not in REGULAR_FILES:
        return f"may not change {path}: it is a link or a submodule"
    if entry is None and any(other.startswith(f"{path}/") for other in taken):
        return f"may not write {path}: it is a directory"
    parts = path.split("/")
    for end in range(1, len(parts)):
        if "/".join(parts[:end]) in taken:
            return f"may not write {path}: {'/'.join(parts[:end])} is a file"
    return None


def _publish_text(path: Path, text: str) -> None:
    """Write so that a reader sees all of it or nothing."""
    making = path.with_suffix(".tmp")
    making.write_text(text)
    making.rename(path)
