"""The state that a verb must not change."""

import contextlib
import hashlib
import os
import sqlite3
import subprocess
from pathlib import Path

from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.sqlite import SqliteLedger
from loopty.workspaces.node_folders import FoldedFolders, NodeFolder

from .conftest import GIT, Place

OURS = ("objects/", "loopty/", "refs/loopty/", "refs/heads/loopty-")


def events(place: Place) -> list:
    """All events in the ledger of this repository."""
    return [item.event for item in SqliteLedger(place.state / "ledger.sqlite").read()]


def kept_of(place: Place, node: str) -> NodeFolder:
    """What loopty keeps of a node in its state, as plain files or folded."""
    folded = FoldedFolders(SafeFolder(place.state).file("folded.sqlite"))
    return NodeFolder(SafeFolder(place.state, ("nodes", node)), folded.files(node))


def has_description(place: Place, node: str) -> bool:
    """Whether the node was measured, and its files are kept."""
    try:
        return bool(kept_of(place, node).read("description.md"))
    except OSError:
        return False


def node_count(place: Place) -> int:
    return event_count(place, "node-added")


def event_count(place: Place, kind: str) -> int:
    """The number of events of a kind in the ledger while another process writes it."""
    ledger = place.state / "ledger.sqlite"
    if not ledger.exists():
        return 0
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(ledger, timeout=30)) as db:
        return db.execute("SELECT count(*) FROM events WHERE kind = ?", (kind,)).fetchone()[0]
    return 0


def user_state(place: Place) -> dict:
    """Every byte that is the user's: files with mode and time, index, HEAD, refs, stash, settings, status."""
    files = {
        str(path.relative_to(place.top)): _file_state(path)
        for path in sorted(place.top.rglob("*"))
        if path.is_file() and ".loopty" not in path.parts and ".git" not in path.parts
    }
    git = place.top / ".git"
    inner = {
        str(path.relative_to(git)): _file_state(path)
        for path in sorted(git.rglob("*"))
        if path.is_file() and not str(path.relative_to(git)).startswith(OURS)
    }
    return {"files": files, "git": inner, "status": status(place)}


def status(place: Place) -> str:
    """`git status` as the user sees it, without updating the index."""
    env = {**os.environ, **GIT, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, cwd=place.top, env=env, capture_output=True, text=True, check=True).stdout


def _file_state(path: Path) -> tuple:
    found = path.lstat()
    return found.st_mode, found.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()
