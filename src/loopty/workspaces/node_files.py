"""The files of nodes: which may change, their commits and refs, and the folder of each node with what people read
about it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from loopty.domain.access import TASK_FILE, is_named_like_a_key
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.launch import SandboxError
from loopty.domain.proposal import MARK, Edits, Proposal, declaration_refusal, declare_after
from loopty.domain.task import Task
from loopty.domain.trial import Verdict
from loopty.engine.protocols import CommittedFiles
from loopty.git.command import GitError
from loopty.git.objects import DIRECTORY, LINK, REGULAR_FILES, TreeEntry
from loopty.git.repository import Repository
from loopty.git.three_way import merge_files
from loopty.kit import paths
from loopty.kit.markers import change_outside_blocks
from loopty.kit.records import replace
from loopty.kit.safe_folder import UnsafePath
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents
from loopty.workspaces.benchmark_files import BenchmarkFiles, folders_above
from loopty.workspaces.node_folders import CHANGE, NodeFolders
from loopty.workspaces.node_refs import MOST_WAITING, NodeRefs
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.git.three_way import MergedFiles
    from loopty.workspaces.shared_files import NodeSharing


_LARGEST_SHOWN = 1_000_000
_MOST_READ = 2_000
"""Files of a baseline in which declarations are looked for."""
_FOLDED = (Verdict.DISCARDED, Verdict.REJECTED, Verdict.QUARANTINED)


class NodeFiles:
    """Implements the Workspaces protocol over a git repository and its `.loopty/` folder."""

    def __init__(
        self, repository: Repository, state: StateFolder, task: Task, sharing: NodeSharing | None = None
    ) -> None:
        """`sharing` is how other clones get these files, where drivers share a store."""
        self._repository = repository
        self._state = state
        self._task = task
        self._sharing = sharing
        self.benchmark = BenchmarkFiles(repository, task)
        self._refs = NodeRefs(repository)
        self.folders = NodeFolders(state, sharing.fetch if sharing else None)
        self._last_edits: tuple[str, Edits] | None = None
        """The commit and the edits that were checked last: a proposer asks before the loop does."""
        self._last_refusal: str | None = None
        self._described: set[NodeId] = set()
        """Nodes whose description was kept with the result of their trial, and that wait for their verdict."""

    def writable_files(self, commit: str) -> list[str]:
        """List the regular files that a proposal may change."""
        access = self._task.access
        listing = self._repository.files(commit, paths.anchors(access.write))
        return [
            path
            for path, entry in listing.items()
            if entry.mode in REGULAR_FILES and access.is_writable(path) and not self.benchmark.includes(path)
        ]

    def files_outside_access(self, commit: str) -> list[str]:
        """List the files and links that a proposer may see, the benchmark's too, but no proposal may change."""
        access = self._task.access
        return [
            path
            for path, entry in self._repository.files(commit).items()
            if entry.mode in (*REGULAR_FILES, LINK)
            and not access.is_hidden(path)
            and (self.benchmark.includes(path) or (access.is_visible(path) and not access.is_writable(path)))
        ]

    def is_shown_to_agents(self, path: str) -> bool:
        """Say whether a coding agent sees this file, which it may not change.

        An agent has a shell, so it sees less than a trial: no hidden file, no file that usually holds a key, not
        the task file, not the evaluator where that runs apart from the candidate, and nothing by which it could
        measure without being counted.
        """
        return (
            path != TASK_FILE
            and self._task.access.is_visible(path)
            and not is_named_like_a_key(path)
            and not (self._task.benchmark.isolated and self.benchmark.includes(path))
            and not self.benchmark.is_program(path)
        )

    def may_change(self, path: str) -> bool:
        """Say whether a proposal may change this file."""
        return self.path_refusal([path]) is None

    def writable_folders(self, commit: str) -> list[str]:
        """List the outermost folders that hold all that a proposal may change; the top is an empty name."""
        anchors = [paths.anchor(pattern) for pattern in self._task.access.write]
        entries = self._repository.entries(commit, filter(None, anchors))
        folders = set()
        for pattern, anchor in zip(self._task.access.write, anchors, strict=True):
            has_wildcard = anchor != pattern.strip("/").removeprefix("./")
            is_folder = has_wildcard or (anchor in entries and entries[anchor].mode == DIRECTORY)
            # An editor writes a new file beside the old one before it replaces that.
            folders.add(anchor if is_folder else str(PurePosixPath(anchor).parent).removeprefix("."))
        return [
            one for one in sorted(folders) if not any(one.startswith(_prefix(other)) for other in folders - {one})
        ]

    def readable_files(self, commit: str) -> list[str]:
        """List the regular files that a proposer may see, including the benchmark's unless they are hidden.

        Large files are left out, and so are files that usually hold a key unless a proposal may change them.
        """
        paths, access = self._repository.files_up_to(commit, _LARGEST_SHOWN), self._task.access
        return [
            path
            for path in paths
            if path != TASK_FILE
            and access.is_visible(path)
            and (access.is_writable(path) or not is_named_like_a_key(path))
        ]

    def text(self, commit: str, path: str) -> str | None:
        """Return the text of a file, or None when it is not text."""
        return self._repository.text(commit, path)

    def merge(self, ancestor: str, ours: str, theirs: str, names: tuple[str, str]) -> MergedFiles:
        """Merge the changes from the ancestor to `theirs` into `ours`; `names` stand at the marks of conflicts.

        A file that no proposal may change now is a conflict: `theirs` may have held it under other access rules.
        """
        merged = merge_files(self._repository, ancestor, ours, theirs, names)
        forbidden = [path for path in merged.edits if not self.may_change(path)]
        edits = {path: content for path, content in merged.edits.items() if path not in forbidden}
        return replace(merged, edits=edits, conflicts=(*merged.conflicts, *forbidden))

    def refusal(self, parent: Node, proposal: Proposal) -> str | None:
        edits = proposal.edits
        if proposal.params and (fault := self._task.space.fault(proposal.params)):
            return fault
        if not edits:
            return None
        if self._last_edits != (parent.commit, edits):
            self._last_edits = parent.commit, dict(edits)
            self._last_refusal = self._edits_refusal(parent, edits)
        return self._last_refusal

    def path_refusal(self, paths: Iterable[str]) -> str | None:
        """Say why a proposal may not change files at these paths, whatever they hold, or return None."""
        paths = sorted(paths)
        if reason := self._task.access.refusal(paths):
            return reason
        own = next(filter(self.benchmark.includes, paths), None)
        return f"may not change {own}: it is part of the benchmark" if own else None

    def _edits_refusal(self, parent: Node, edits: Edits) -> str | None:
        if reason := self.path_refusal(edits):
            return reason
        entries = self._repository.entries(parent.commit, _with_parents(edits))
        for path, content in edits.items():
            if reason := self._placement_fault(path, entries, edits):
                return reason
            if path in entries and (reason := self._marker_fault(parent, path, content)):
                return reason
        return declaration_refusal(parent.declared, edits, self._task.space)

    def with_declarations(self, files: CommittedFiles) -> CommittedFiles:
        """Add to a baseline's files what they declare; they are read only if proposals are tuned."""
        if not self._task.tune:
            return files
        paths = self.writable_files(files.commit)[:_MOST_READ]
        small = {*self._repository.files_up_to(files.commit, _LARGEST_SHOWN)}
        texts = {path: self.text(files.commit, path) for path in paths if path in small}
        marked = {path: text for path, text in texts.items() if text and MARK in text}
        if reason := declaration_refusal({}, marked, self._task.space):
            raise Misuse(f"the baseline {reason}")
        return replace(files, declared=declare_after({}, marked))

    def _placement_fault(self, path: str, entries: Mapping[str, TreeEntry], edits: Edits) -> str | None:
        """Say why no file may be written at this path, or None: it would replace more than a plain file."""
        entry = entries.get(path)
        mount_points = (
            *self._task.benchmark.scratch,
            *self._task.benchmark.caches,
            *self._task.benchmark.mounts,
        )
        below = (*edits, *(f"{point.removeprefix('./').rstrip('/')}/" for point in mount_points))
        if (entry and entry.mode == DIRECTORY) or any(other.startswith(f"{path}/") for other in below):
            return f"may not write {path}: it is a directory"
        if entry and entry.mode not in REGULAR_FILES:
            return f"may not change {path}: it is a link or a submodule"
        for parent in folders_above(path):
            if edits.get(parent) is not None or (parent in entries and entries[parent].mode != DIRECTORY):
                return f"may not write {path}: {parent} is a file"
        return None

    def _marker_fault(self, parent: Node, path: str, content: str | bytes | None) -> str | None:
        before = self.text(parent.commit, path)
        if before is None:
            return None
        after = content.decode(errors="replace") if isinstance(content, bytes) else content or ""
        try:
            reason = change_outside_blocks(before, after)
        except ValueError as error:
            reason = str(error)
        return f"{path}: {reason}" if reason else None

    def commit(self, parent: Node, edits: Edits, message: str) -> CommittedFiles:
        if not edits:
            return CommittedFiles(parent.commit, parent.tree, parent.declared)
        modes = self._repository.entries(parent.commit, edits)
        files = self._repository.commit(parent.commit, edits, modes, f"{message}\n")
        programs = {path: content for path, content in edits.items() if self._task.access.is_writable(path)}
        return replace(files, declared=declare_after(parent.declared, programs))

    def publish(self, node: Node, parent: Node | None) -> None:
        is_new = parent is None or parent.commit != node.commit
        if is_new and (node.verdict or self.folders.new_description(node.id)):
            return
        if is_new:
            self._repository.require_commit(node.commit)
            self._refs.hold_soon(node.id.run, node.commit)
        if self._sharing:
            self._sharing.send_commit(self._repository, node, parent)
        refs, branch = self._repository.refs, node.id.branch
        if refs.wants_branches and (is_new or refs.branch_tip(branch) is None):
            refs.make_branch(branch, node.commit)
        self.folders.remember_description(node.id, self._description(node, parent))

    def finish_node(self) -> None:
        """Pack what was added to the repository; a verb that adds one node calls it before it ends."""
        self._refs.finish_node()

    def hold_newest(self, run: int, history: History) -> None:
        """Hold the commits of the newest nodes: a session that was killed may not have come to that."""
        handles = range(max(1, history.count - MOST_WAITING + 1), history.count + 1)
        nodes = map(history.__getitem__, history.nodes_of_handles(handles).values())
        root = history[history.runs[run].root].commit
        mine = (node.commit for node in nodes if node.id.run == run and not (node.draft or node.files_removed))
        # What another clone made is held there; a link to what is not here would break this repository.
        if commits := self._repository.commits_here(commit for commit in dict.fromkeys(mine) if commit != root):
            self._refs.hold_newest(run, commits)

    def finish_session(self, run: int) -> None:
        """Pack what the session has added to the repository, and leave no open file."""
        self._refs.finish_packs(run)
        self.folders.close()

    def keep_result(self, node: NodeId, files: Mapping[str, bytes]) -> None:
        """Keep what a trial left, and what describes the node: if it is discarded, nothing more has to be kept."""
        description = self.folders.new_description(node)
        self.folders.add(node, {**files, **description})
        if description:
            self._described.add(node)

    def conclude(self, node: Node, history: History) -> None:
        """Keep what describes a node. Fold what nobody needs soon, and lay the rest out for people."""
        parent = history[node.id.parent] if node.id.parent else None
        description = {} if node.id in self._described else self._description(node, parent)
        self._described.discard(node.id)
        if node.verdict in _FOLDED and parent is not None:
            self.folders.fold(node.id, description)
        else:
            self._refs.hold_waiting()
            self.folders.add(node.id, description)
            self._lay_out(node, history)
        if self._sharing:
            with contextlib.suppress(OSError):  # more than a store takes stays here
                self._sharing.send_folder(node, self.folders.files(node.id))

    def _description(self, node: Node, parent: Node | None) -> dict[str, bytes]:
        """Describe a node for people: what it is, and how its files differ from those of its parent."""
        if description := self.folders.new_description(node.id):
            return dict(description)
        patch = b""
        if parent and parent.commit != node.commit:
            with contextlib.suppress(GitError):  # its files were removed
                patch = self._repository.patches.between(parent.commit, node.commit)
        return {**({CHANGE: patch} if patch else {}), **description_files(node)}

    def _lay_out(self, node: Node, history: History) -> None:
        try:
            self.folders.lay_out(node.id, analysis_files(node, history))
        except UnsafePath as error:
            raise SandboxError(str(error)) from None
        except OSError:
            # A copy that cannot be written must not cost the verdict, and whoever looks at the node gets one.
            return


def _prefix(folder: str) -> str:
    return f"{folder}/" if folder else ""


def _with_parents(paths: Iterable[str]) -> set[str]:
    return {name for path in paths for name in (path, *folders_above(path))}


def description_files(node: Node) -> dict[str, bytes]:
    """Describe a node for people. The text is last: if they are plain files, it says that all are there."""
    text = f"# {node.name} ({node.id})\n\n{node.operator}: {node.summary}\n\ncommit {node.commit}\n"
    params = {"params.json": f"{json.dumps(dict(node.params), indent=2)}\n".encode()} if node.params else {}
    return {**params, "description.md": text.encode(errors="replace")}


def analysis_files(node: Node, history: History) -> dict[str, bytes]:
    """Return the analysis of a measured node as a file: it is made when the node's folder is laid out."""
    if node.verdict is None and node.outcome is None:
        return {}
    return {"analysis.md": _analysis_text(node, history).encode(errors="replace")}


def _analysis_text(node: Node, history: History) -> str:
    """Markdown with a table of metrics: the node, the baseline, the node before it and the best one."""
    lines = [f"# {node.name}: {node.verdict or 'no verdict'}", "", node.reason, ""]
    best = Incumbents.of(history.runs[node.id.run], node.pool).best
    compared = {"baseline": history.runs[node.id.run].root, "before": node.against, "best": best}
    columns = {name: history[other] for name, other in compared.items() if other}
    if node.outcome and node.outcome.metrics:
        lines += [f"| metric | {node.name} | {' | '.join(f'{k} {n.name}' for k, n in columns.items())} |"]
        lines += ["|---" * (2 + len(columns)) + "|"]
        for name, value in node.outcome.metrics.items():
            others = (n.outcome.metrics.get(name) if n.outcome else None for n in columns.values())
            cells = " | ".join("–" if other is None else f"{other:g}" for other in others)
            lines.append(f"| {name} | {value:g} | {cells} |")
    return "\n".join((*lines, ""))
