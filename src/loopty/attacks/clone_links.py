"""Attacks by a clone: it brings links where loopty keeps its own files, and loopty is used in it."""

from __future__ import annotations

import contextlib
import os

from loopty.attacks.arena import Arena
from loopty.attacks.attack import Attack
from loopty.attacks.host_side import commit_all
from loopty.attacks.threats import Threat
from loopty.domain.errors import LooptyError
from loopty.domain.ids import NodeId
from loopty.workspaces.git_folders import GitFolders
from loopty.workspaces.node_folders import NodeFolders
from loopty.workspaces.repository import Repository
from loopty.workspaces.state_folder import StateFolder

_LINKS = {
    "bring a link as loopty's folder": 'link("", "")',
    "bring a link as the folder of a node": 'link("/nodes/1", "")',
    "bring a link as a file of a node": 'link("/nodes/1/result.json", "/ledger.sqlite")',
    "bring a link as the folder of drafts": 'link("/drafts", "")',
}
_SCRIPT = """
def link(name, target):
    path = OUT + "/clone/.loopty" + name
    os.makedirs(os.path.dirname(path))
    os.symlink(HOST["hidden"] + target, path)

{}
"""


def use_clone(arena: Arena) -> None:
    """Do in a clone what loopty does with its own folder there: refuse it, write to it, empty it."""
    top = arena.root / "clone"
    (arena.outbox / "clone").rename(top)
    os.chown(top, os.geteuid(), os.getegid())
    commit_all(top)
    if Repository.open(top).working_tree.foreign_state_path() is None:
        raise RuntimeError("files of the clone in loopty's folder were not noticed")
    state, node = StateFolder.of(GitFolders.find(top)), NodeId("1")
    with contextlib.suppress(LooptyError):
        state.prepare()
    with contextlib.suppress(OSError):
        state.node_folder(node).file("result.json").write(b"forged")
        NodeFolders(state).lay_out(node, {})
    with contextlib.suppress(OSError):
        state.draft_folder(node).make().file("file").write(b"forged")
    with contextlib.suppress(OSError):
        state.node_copy(node).remove_all()


ATTACKS = tuple(
    Attack(name, Threat.CLONE, None, _SCRIPT.format(script), after=use_clone) for name, script in _LINKS.items()
)
