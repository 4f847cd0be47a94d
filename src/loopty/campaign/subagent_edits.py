"""Refuses a draft that somebody else than a subagent has edited, where edits are for subagents.

A hook refuses edits by tools. A shell passes it: so `submit` looks when the files were changed, and by whose call.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.campaign.host_calls import HostCalls, HostWork
from loopty.campaign.mode_settings import ModeSettings
from loopty.domain.agent_mode import AgentMode
from loopty.domain.errors import Misuse
from loopty.kit import globs
from loopty.kit.fence import one_line
from loopty.kit.safe_folder import SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable, json_object
from loopty.record.node_record import Node
from loopty.workspaces.drafts import digest_of
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.campaign.context import CampaignContext

CALLS_FILE = "host_calls.jsonl"


def note_edits_of_director(state: StateFolder, calls: HostCalls) -> None:
    """Write down which open drafts the call of a directing agent that has just ended has edited.

    At once, because a subagent may change the same file later: then its time says nothing about this edit.
    """
    work = calls.read()
    for draft in work.drafts - work.edited.keys():
        folder = state.draft_folder(draft)
        try:
            laid_out = json_object(state.draft_layout(draft).read())
            writable = [path for path, digest in laid_out.items() if isinstance(digest, str)]
            top = folder.path_for_programs()
            since = _changed_at(state.draft_layout(draft).path_for_programs())
            times = {path: _changed_at(top / path) for path in writable}
        except (OSError, Unreadable, UnsafePath):
            continue  # it has been sealed or dropped
        for path, moment in times.items():
            if moment > since and work.is_directors(moment) and _digest(folder, path) != laid_out[path]:
                calls.note_edit(draft, path)
                break


def require_subagent_edits(context: CampaignContext, node: Node, environ: Mapping[str, str] = os.environ) -> None:
    """Raise Misuse where the agent that directs the others has edited this draft, or the repository itself.

    Only drafts that an agent has opened in a host with hooks are meant: elsewhere nobody knows who edits.
    """
    state = context.state
    work = HostCalls(state.home.file(CALLS_FILE)).read()
    if node.id not in work.drafts or not node.draft:
        return
    if node.id not in work.instructed and not ModeSettings(state.home, environ).is_on(AgentMode.SUBAGENTS_ONLY):
        return
    remedy = (
        "edits here are for subagents: let one make the change in a draft of its own. "
        f"If the user wants you to edit: loopty mode {AgentMode.SUBAGENTS_ONLY} off"
    )
    if path := work.edited.get(node.id) or next(_strange_edits(context, node, work), None):
        raise Misuse(f"{node.name}: {one_line(path, 120)} was changed while no subagent was at work, and {remedy}")
    if path := next(_edits_of_repository(context, work), None):
        raise Misuse(
            f"{one_line(path, 120)} of the repository itself was changed, and {remedy}. "
            "Put the file back first: git restore"
        )


def _strange_edits(context: CampaignContext, node: Node, work: HostWork) -> Iterator[str]:
    """The files of a draft that were changed after it was laid out, and not by a subagent."""
    from loopty.campaign.draft_files import draft_edits

    folder, layout = context.state.draft_folder(node.id), context.state.draft_layout(node.id)
    laid_out, top = _changed_at(layout.path_for_programs()), folder.path_for_programs()
    for path in sorted(draft_edits(context, node)):
        moment = _changed_at(top / path)
        if moment > laid_out and not work.is_subagents(moment):
            yield path


def _edits_of_repository(context: CampaignContext, work: HostWork) -> Iterator[str]:
    """The writable files of the working tree that the directing agent has changed, and that differ from HEAD."""
    repository, top = context.repository, context.state.top
    writable = (path for path in repository.working_tree.paths() if globs.matches(path, context.task.access.write))
    suspects = {path for path in writable if work.is_directors(_changed_at(top / path))}
    if suspects:
        now = repository.working_tree.snapshot("a check of edits")
        changes = repository.changes(repository.head().commit, now.commit)
        yield from sorted(suspects.intersection(change.path for change in changes))


def _digest(folder: SafeFolder, path: str) -> str:
    try:
        return digest_of(folder.file_at(path).read())
    except (OSError, UnsafePath):
        return ""


def _changed_at(place: Path) -> float:
    """When a file was changed last, in any way; for one that is gone, when its folder was."""
    for found in (place, *place.parents):
        try:
            return os.lstat(found).st_ctime
        except (FileNotFoundError, NotADirectoryError):
            continue
    return 0.0
