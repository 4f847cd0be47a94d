"""What loopty does on the host with the leftovers of a trial, here in an arena."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from loopty.attacks.arena import Arena
from loopty.attacks.folder_state import paths_below
from loopty.domain.access import Access
from loopty.domain.errors import LooptyError
from loopty.domain.proposal import Edits
from loopty.evaluators import harvest
from loopty.evaluators.metrics_csv import MetricsStream
from loopty.evaluators.trial_output import LARGEST_RESULT
from loopty.kit import untrusted_files
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.trial_user import trial_owner
from loopty.kit.untrusted_files import Unreadable
from loopty.workspaces import drafts
from loopty.workspaces.repository import Repository

_MOST_MB = 200
"""Other attacks run in this process at the same time, and take some, too."""
_SOMEONE = ("-c", "user.name=someone", "-c", "user.email=someone@localhost", "-c", "core.hooksPath=/dev/null")


def process_leftovers(arena: Arena) -> None:
    """Take result, metrics and traces out of the outbox, make a node of its draft, remove the outbox."""
    limit_memory(_take_outputs, arena)
    _harvest_draft(arena)
    SafeFolder(arena.outbox.parent).remove(arena.outbox.name)
    if arena.outbox.exists():
        raise RuntimeError("the outbox could not be removed")
    arena.outbox.mkdir()


def limit_memory(action: Callable[[Arena], None], arena: Arena) -> None:
    """Do something with the leftovers. Raises MemoryError when this process needs much memory for it."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = _peak_mb()
    action(arena)
    if (taken := _peak_mb() - before) > _MOST_MB:
        raise MemoryError(f"reading the leftovers took {taken} MB")


def _peak_mb() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) >> 10


def _take_outputs(arena: Arena) -> None:
    owner = trial_owner()
    outbox = SafeFolder(arena.outbox).written_by(owner[0] if owner else None)
    harvest_folder = SafeFolder(arena.harvest_folder)
    with contextlib.suppress(Unreadable):
        raw = untrusted_files.content(arena.outbox / "result.json", LARGEST_RESULT)
        harvest_folder.file("result.json").write(raw or b"")
    with contextlib.suppress(Unreadable):
        MetricsStream(outbox.file("metrics.csv"), copy=harvest_folder.file("metrics.csv")).read_new()
    harvest.TraceCopies(outbox.below("traces"), harvest_folder.below("traces")).copy_new()


def _harvest_draft(arena: Arena) -> None:
    left, draft = arena.outbox / "draft", arena.draft
    if not left.is_dir():
        return
    draft.parent.mkdir()
    left.rename(draft)
    layout = SafeFolder(draft.parent).file(f"{draft.name}.json")
    layout.write(b"{}")
    for path in (draft, *paths_below(draft)):
        # Git refuses a repository of another user; a draft belongs to the user.
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
    with contextlib.suppress(LooptyError):
        edits = drafts.edits_in(SafeFolder(draft), layout)
        for path_inside, content in edits.items():
            *above, name = Path(path_inside).parts
            copy = SafeFolder(arena.harvest_folder, tuple(above)).file(name)
            copy.write(content if isinstance(content, bytes) else b"")
        if Access(write=("**",)).refusal(edits) is None:
            _use_every_verb(Repository.open(_fresh_repository(arena.root / "repository")), edits)
    with contextlib.suppress(LooptyError):
        # As if somebody started loopty inside the draft.
        _use_every_verb(Repository.open(draft), {"new": "new"})


def _fresh_repository(top: Path) -> Path:
    top.mkdir()
    (top / "file").touch()
    commit_all(top)
    return top


def commit_all(top: Path) -> None:
    """Make a repository of a folder and commit its files, ignored ones too."""
    for words in (["init", "-q"], ["add", "--force", "--all"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *_SOMEONE, *words], cwd=top, check=True, capture_output=True)


def _use_every_verb(repository: Repository, edits: Edits) -> None:
    before = repository.head().commit
    repository.working_tree.snapshot("as it is")
    made = repository.commit(before, edits, {}, "harvested").commit
    repository.refs.make_branch("harvested", made)
    repository.patches.between(before, made)
