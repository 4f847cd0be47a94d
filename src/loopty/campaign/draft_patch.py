"""Applies a patch to a draft: for clients that can read and not write."""

from __future__ import annotations

from pathlib import PurePosixPath

from loopty.campaign.context import CampaignContext
from loopty.campaign.draft_files import node_as_edited
from loopty.domain.errors import Misuse
from loopty.record.node_record import Node
from loopty.workspaces.git_objects import REGULAR_FILES

LARGEST_PATCH = 256 << 10
_MOST_FILES = 200


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
