"""Confine a process forked from this one with Landlock: it may read, and write to temporary folders alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.sandboxes.landlock.order import enter, make_ruleset, version
from loopty.sandboxes.raw_calls import PR_SET_NO_NEW_PRIVS, prctl


def require_confinement() -> None:
    """Raise Misuse where this kernel cannot do it."""
    try:
        version()
    except OSError:
        raise Misuse(
            "isolated=True needs Landlock, which this kernel does not have: leave it out, or write a benchmark "
            "and use `loopty run`, which knows other sandboxes"
        ) from None


def confine(folder: Path) -> None:
    """Confine this process for good. It cannot write to `folder`, which has the ledger, nor connect anywhere."""
    home = Path(tempfile.mkdtemp(prefix="loopty-isolated-"))
    os.environ["TMPDIR"] = str(home)
    tempfile.tempdir = str(home)
    os.chdir(home)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    enter(make_ruleset(version(), [str(Path(folder.anchor))], [str(home)], [], network=False))
