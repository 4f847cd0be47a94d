"""The past versions that a task names: resolved before a run begins, then read as changes of its baseline."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.campaign.context import CampaignContext
from loopty.domain.errors import Misuse
from loopty.domain.pool import Pool
from loopty.domain.proposal import Proposal
from loopty.domain.task import Task
from loopty.proposers.versions_proposer import OPERATOR, PastVersion
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.workspaces.git_session import GitError
from loopty.workspaces.repository import Repository
from loopty.workspaces.working_tree import committed_files

_SHORT = 10


def version_commits(repository: Repository, task: Task) -> Mapping[str, str]:
    """The commits of the versions by their names. Raises Misuse where a name is none."""
    return {name: _commit(repository, name) for name in task.anchors.versions}


def _commit(repository: Repository, name: str) -> str:
    try:
        return committed_files(repository.git, name).commit
    except GitError:
        raise Misuse(
            f"{name!r} under [anchors] versions is no commit of this repository: fetch it with "
            "`git fetch --tags`, or take it out of loopty.toml"
        ) from None


def unmeasured_versions(context: CampaignContext, run: int, commits: Mapping[str, str]) -> list[PastVersion]:
    """The versions that the run has not yet, as changes of its baseline; the user learns why one is left out."""
    root = context.history[context.history.runs[run].root]
    measured = {node.summary for node in context.history.nodes(run, Pool.VERSION)}
    found: list[PastVersion] = []
    for name, commit in commits.items():
        summary = f"version {name} ({commit[:_SHORT]})"
        if summary in measured:
            continue
        version = PastVersion(summary, _edits(context, root, commit))
        proposal = Proposal(OPERATOR, root.id, summary, edits=version.edits)
        if not version.edits:
            context.say(f"{summary} is not measured: its files that may change are those of the baseline")
        elif any(version.edits == other.edits for other in found):
            context.say(f"{summary} is not measured: it is the same as another one")
        elif reason := context.files.refusal(root, proposal):
            context.say(f"{summary} is not measured: {reason}")
        else:
            found.append(version)
    return found


def has_open_version(history: History, run: int) -> bool:
    """Whether a version of the run waits for its verdict: the process that measured it was ended."""
    return any(node.is_pending for node in history.nodes(run, Pool.VERSION))


def _edits(context: CampaignContext, root: Node, commit: str) -> dict[str, str | bytes | None]:
    """What turns the baseline's files that may change into those of the version."""
    files, repository = context.files, context.repository
    then, now = repository.files(commit), repository.files(root.commit)
    there, here = set(files.writable_files(commit)), set(files.writable_files(root.commit))
    changed = sorted(path for path in there if path not in now or now[path].blob != then[path].blob)
    return {**{path: repository.content(commit, path) for path in changed}, **dict.fromkeys(sorted(here - there))}
