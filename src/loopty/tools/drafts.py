"""Drafts of clients: opened for one hypothesis that is new, merged from two nodes, changed by a patch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId, handle_name
from loopty.git.objects import REGULAR_FILES
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.tickets import Claims
from loopty.session.context import CampaignContext
from loopty.session.drafts import Draft, DraftClaim, merge_drafts, new_draft, node_as_edited
from loopty.tools.desk import Desk, Reply
from loopty.tools.table import LARGEST_PATCH, Arguments

_MOST_SIBLINGS = 100
_MOST_NAMED = 12
_MOST_FILES = 200


def open_draft(desk: Desk, arguments: Arguments) -> Reply:
    """Open a draft below a node, or with the changes of two."""
    hypothesis = " ".join(arguments["hypothesis"].split())
    surface = " ".join(arguments.get("surface", "").split())
    if not hypothesis:
        raise Misuse("the hypothesis is empty: say what you change and why it helps")
    if "merge" in arguments and ("parent" in arguments or "params" in arguments):
        raise Misuse("give merge, or parent and params, not both")
    claim = DraftClaim(desk.client, surface, require_new=_twin_check(hypothesis, time.time()))
    if "merge" in arguments:
        return _merge(desk, arguments["merge"], hypothesis, claim)
    above = desk.find(arguments["parent"]) if "parent" in arguments else None
    draft = new_draft(desk.context, above, hypothesis, arguments.get("params", {}), claim=claim)
    return _reply(desk.context, draft, "")


def _merge(desk: Desk, nodes: Sequence[str], hypothesis: str, claim: DraftClaim) -> Reply:
    first, second = map(desk.find, nodes)
    merged = merge_drafts(desk.context, first, second, hypothesis, claim)
    ours, other, since = map(desk.context.history.name, (merged.parent, merged.other, merged.ancestor))
    said = f"It holds the changes of {ours} and {other} since {since}. "
    if merged.conflicts:
        said += f"Conflicts, marked with <<<<<<< in the files: {', '.join(merged.conflicts[:_MOST_NAMED])}. "
    parents = {"parents": [merged.parent, merged.other], "conflicts": list(merged.conflicts)}
    return _reply(desk.context, merged.draft, said) | parents


def _reply(context: CampaignContext, draft: Draft, said: str) -> Reply:
    writable = context.task.access.write
    count, name = len(draft.files), handle_name(draft.handle)
    text = (
        f"Opened {name}: edit the files in {draft.folder} "
        f"({count} writable: {', '.join(writable[:_MOST_NAMED]) or 'none'}). {said}"
        f"Then check, and submit with id {name}; submit takes a patch where you cannot write."
    )
    return {"text": text, "id": draft.node, "handle": draft.handle, "folder": str(draft.folder)}


def _twin_check(hypothesis: str, now: float) -> Callable[[History, Node], None]:
    words = _normal(hypothesis)

    def require_new(history: History, parent: Node) -> None:
        for name, claim in Claims.of(history.runs[parent.id.run]).by_node.items():
            node = NodeId(name)
            if node.parent == parent.id and claim.is_fresh(now) and _normal(claim.summary) == words:
                minutes = (now - claim.since) / 60
                raise Misuse(
                    f"{claim.author} has worked on this as {history.name(node)} for {minutes:.0f} min: "
                    "take another one"
                )
        for number in range(parent.children, max(parent.children - _MOST_SIBLINGS, 0), -1):
            # Decoded as far as needed: there may be a hundred of them.
            known = json.loads(history.body(parent.id.child(number)))
            if known.get("verdict") and _normal(known.get("summary", "")) == words:
                child = history[parent.id.child(number)]
                raise Misuse(
                    f"this was tried on {parent.name} as {child.name}: {child.verdict} "
                    f"({child.reason[:120]}); take another one, or say what is different"
                )

    return require_new


def _normal(text: str) -> list[str]:
    """Split a hypothesis into words, whatever their case and marks."""
    return "".join(letter if letter.isalnum() else " " for letter in text.casefold()).split()


def apply_patch(context: CampaignContext, node: Node, patch: str) -> list[str]:
    """Write what a unified diff changes into the draft's directory, and return the paths. Raises Misuse."""
    raw = patch.encode()
    if len(raw) > LARGEST_PATCH:
        raise Misuse(f"the patch has {len(raw):,} bytes, more than {LARGEST_PATCH:,}: send a smaller one")
    if "GIT binary patch" in patch:
        raise Misuse("the patch is binary: only text can be sent")
    raw = raw if raw.endswith(b"\n") else raw + b"\n"
    patches, before = context.repository.patches, node_as_edited(context, node)
    if reason := context.files.path_refusal(patches.paths_in(raw) or ()):
        raise Misuse(f"the patch {reason}")
    writable = context.files.writable_files(before.commit)
    trees = patches.apply_to_files(context.repository.entries(before.commit, writable), raw)
    if trees is None:
        raise Misuse(
            f"the patch does not apply to the writable files of {node.name} as its draft is now: make it again "
            "from these; it may change, copy and rename no others"
        )
    changes = context.repository.tree_changes(*trees)
    if not changes:
        raise Misuse("the patch changes nothing")
    if len(changes) > _MOST_FILES:
        raise Misuse(f"the patch changes {len(changes)} files, more than {_MOST_FILES}")
    paths = [change.path for change in changes]
    if reason := context.files.path_refusal(paths):
        raise Misuse(f"the patch {reason}")
    odd = [change.path for change in changes if change.after and change.after.mode not in REGULAR_FILES]
    if odd:
        raise Misuse(f"the patch makes {odd[0]} something other than a regular file")
    folder = context.state.draft_folder(node.id)
    for change in changes:
        *above, name = PurePosixPath(change.path).parts
        place = folder.below(*above)
        if change.after is None:
            place.remove(name)
        else:
            place.file(name).write(context.repository.blob(change.after.blob))
    return paths
