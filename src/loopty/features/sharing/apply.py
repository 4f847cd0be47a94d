"""Apply: bring a node's change to the user's own branch or files, and its parameters to a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePath, PurePosixPath

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.space import Value
from loopty.domain.trial import Verdict
from loopty.git.command import GitError
from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.record.directives import AuditAnchors, refuted_top
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import require_files
from loopty.session.context import Say
from loopty.session.queries import task_or_none
from loopty.session.saved_record import SavedRecord
from loopty.session.trust import open_own_repository
from loopty.show.comparisons import over_baseline, sigma
from loopty.show.score_text import ScoreText


class WinnerBranch(Record):
    """A branch that holds a node's whole change as one commit."""

    node: NodeId
    branch: str
    commit: str
    onto: str
    """The commit below it: HEAD, or the run's baseline where HEAD has other versions of the changed files."""


def make_winner_branch(
    record: SavedRecord, node: NodeId, branch: str | None, force: bool, say: Say
) -> WinnerBranch:
    """Make a branch with the node's change; the working tree, the index and HEAD stay as they are."""
    found, root = _node_with_edits(record, node, say)
    repository = open_own_repository(record.state.top)
    name = branch or f"loopty-best-{found.name}"
    if repository.refs.branch_tip(name) and not force:
        raise Misuse(f"there is already a branch {name}: name another with --branch, or move it with --force")
    message = _message(record.history, found, root)
    commit, onto = repository.transplant(root.commit, found.commit, message)
    try:
        repository.refs.make_branch(name, commit, move=force)
    except Misuse as error:
        raise Misuse(f"{error}; name another with --branch") from None
    return WinnerBranch(node, name, commit, onto)


class NodeBranch(Record):
    """A branch at a node's own commit."""

    branch: str
    commit: str


def make_node_branch(record: SavedRecord, node: NodeId, branch: str | None, force: bool) -> NodeBranch:
    """Make a branch at the node's commit, by default one that is named like the node."""
    found = record.history[node]
    require_files(found)
    if found.draft:
        raise Misuse(f"{found.name} is a draft: run `loopty run {found.name}` first")
    name = branch or node.branch
    repository = open_own_repository(record.state.top)
    repository.require_commit(found.commit)
    try:
        repository.refs.make_branch(name, found.commit, move=force)
    except Misuse as error:
        raise Misuse(f"{error}; name another with --name, or move it with --force") from None
    return NodeBranch(name, found.commit)


def patch_working_tree(record: SavedRecord, node: NodeId, say: Say) -> None:
    """Apply the node's change to the working tree: all of it, or nothing."""
    found, root = _node_with_edits(record, node, say)
    repository = open_own_repository(record.state.top)
    patch = repository.patches.between(root.commit, found.commit)
    if any(
        PurePath(change.path).name == ".gitattributes" for change in repository.changes(root.commit, found.commit)
    ):
        raise Misuse(
            f"{found.name} changes .gitattributes, which chooses programs that git runs on your files: "
            f"`loopty apply {found.name}` makes a branch instead, to look at first"
        )
    try:
        repository.working_tree.apply(patch, dry_run=True)
        repository.working_tree.apply(patch)
    except GitError as error:
        raise Misuse(
            f"the change does not apply to your working tree ({error.message.splitlines()[0]}): "
            f"`loopty apply {found.name}` makes a branch instead"
        ) from None


def applicable_node(record: SavedRecord, node: NodeId, say: Say) -> tuple[Node, Node]:
    """Return the node and its baseline. Raises Misuse for a draft; warns if the node is not what it seems."""
    history = record.history
    found = history[node]
    root = history[history.runs[node.run].root]
    require_files(found)
    if found.draft:
        raise Misuse(f"{found.name} is a draft: run `loopty run {found.name}` first")
    if found.verdict is Verdict.HELD:
        raise Misuse(f"{found.name} is held ({found.reason}): accept it first")
    if flaw := record.flaw():
        say(f"warning: {flaw}")
    if found.verdict is None or not found.outcome or not found.outcome.is_finished:
        say(f"warning: {found.name} never gave a result")
    if found.withdrawn:
        say(f"warning: the verdict about {found.name} was withdrawn: {found.withdrawn.why}")
    if audit := AuditAnchors.of(history.runs[node.run]).text:
        say(f"{'warning: ' if refuted_top(history.runs[node.run], node) else ''}{audit}")
    return found, root


def _node_with_edits(record: SavedRecord, node: NodeId, say: Say) -> tuple[Node, Node]:
    """Return the node and its baseline, if the node changes a file."""
    found, root = applicable_node(record, node, say)
    if found.commit == root.commit:
        raise Misuse(f"{found.name} changes no file: there is nothing to apply")
    return found, root


def _message(history: History, found: Node, root: Node) -> str:
    """Write a commit message: its title says the gain as far as it is confirmed, then follows the whole path."""
    path = [f"- {history.name(node)}: {one_line(history[node].summary, _LINE)}" for node in found.id.lineage[1:]]
    steps = "\n".join(path)
    return f"{_title(history, found, root)}\n\nFrom the baseline to loopty node {found.name}:\n{steps}\n"


def _title(history: History, found: Node, root: Node) -> str:
    metrics, outcome = history.metrics(found), found.outcome
    if not metrics or outcome is None or not outcome.is_finished:
        return f"Take over {found.name}, which gave no result"
    metric = score_metric(metrics)
    change = over_baseline(history, found.id, outcome.fingerprint, metric)
    if change is None or change.is_confirmed is False:
        return f"Change {metric.name}: the gain is not confirmed"
    values = [score for score in (history.score(root), history.score(found)) if score is not None]
    noise = sigma(history.runs[found.id.run], outcome.fingerprint, metric.name)
    return f"{metric.name}: {ScoreText.of(values, [change], noise).change_words(change, 'the baseline')}"


_LARGEST_FILE = 16 << 20
_LINE = 200


class WinnerParams(Record):
    """The parameters of a node, and the file that has them now."""

    node: NodeId
    params: Mapping[str, Value]
    path: Path | None
    """None where neither the task nor the user names a file."""


def write_params(record: SavedRecord, node: NodeId, to: Path | None, say: Say) -> WinnerParams:
    """Write the node's parameters to `to`, by default to the file that the task names; its other keys stay."""
    found, _ = applicable_node(record, node, say)
    if not found.params:
        raise Misuse(f"{found.name} has no parameters: `loopty apply {found.name}` brings its files to a branch")
    file = _file(record.state.top, to)
    if file is None:
        return WinnerParams(node, found.params, None)
    content = {**_present_content(file), **found.params}
    file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
    return WinnerParams(node, found.params, file.shown_path)


def _file(top: Path, to: Path | None) -> SafeFile | None:
    """Return the file to write: the user's choice, else the task's, which lies inside the repository."""
    if to is not None:
        path = to.absolute()
        return SafeFolder(path.parent).file(path.name)
    task = task_or_none(top)
    if task is None or not task.parameters_file:
        return None
    *folders, name = PurePosixPath(task.parameters_file).parts
    return SafeFolder(top).below(*folders).file(name)


def _present_content(file: SafeFile) -> dict[str, object]:
    try:
        content = json.loads(file.read(_LARGEST_FILE))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Misuse(f"{file.shown_path} holds no JSON object to add the parameters to: name another with --to")
    return content
