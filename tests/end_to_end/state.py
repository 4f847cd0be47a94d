"""What a verb must leave as it is."""

import hashlib
import os
import subprocess
from pathlib import Path

from loopty.ledgers.sqlite import SqliteLedger

from .conftest import GIT, Place

OURS = ("objects/", "refs/heads/loopty-", "logs/refs/heads/loopty-")


def events(place: Place) -> list:
    """Everything that the ledger of this place holds."""
    return [item.event for item in SqliteLedger(place.top / ".loopty/ledger.sqlite").read()]


def of_the_user(place: Place) -> dict:
    """Every byte that is the user's: files with mode and time, index, HEAD, refs, stash, settings, status."""
    files = {
        str(path.relative_to(place.top)): _print(path)
        for path in sorted(place.top.rglob("*"))
        if path.is_file() and ".loopty" not in path.parts and ".git" not in path.parts
    }
    git = place.top / ".git"
    inner = {
        str(path.relative_to(git)): _print(path)
        for path in sorted(git.rglob("*"))
        if path.is_file() and not str(path.relative_to(git)).startswith(OURS)
    }
    return {"files": files, "git": inner, "status": status(place)}


def status(place: Place) -> str:
    """`git status` as the user sees it, without the refresh of the index that it likes to do."""
    env = {**os.environ, **GIT, "GIT_OPTIONAL_LOCKS": "0"}
    asked = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(asked, cwd=place.top, env=env, capture_output=True, text=True, check=True).stdout


def _print(path: Path) -> tuple:
    seen = path.lstat()
    return seen.st_mode, seen.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()
