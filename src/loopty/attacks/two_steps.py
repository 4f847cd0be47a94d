"""Attacks in two steps: one trial plants something that harms the launch of the next."""

from __future__ import annotations

from loopty.attacks.arena import OUT, Arena
from loopty.attacks.attack import Attack, SecondLaunch
from loopty.attacks.threats import Threat
from loopty.domain.launch import Mount, Protection


def _from_the_outbox(arena: Arena) -> Mount:
    return Mount(arena.outbox / "folder", "/arena/folder", writable=True)


def _from_below_the_outbox(arena: Arena) -> Mount:
    return Mount(arena.outbox / "folder" / "home", "/arena/folder", writable=True)


def _into_the_outbox(arena: Arena) -> Mount:
    return Mount(arena.tree, f"{OUT}/folder/new/place")


def _evaluator_in_the_outbox(arena: Arena) -> Mount:
    return Mount(arena.tree / "package" / "eval", f"{OUT}/package/eval")


_TO_THE_HOST = """
import shutil
shutil.rmtree(OUT + "/folder")
os.symlink({}, OUT + "/folder")
"""

ATTACKS = (
    Attack(
        "plant a link as the source of a later mount",
        Threat.PLANTED,
        Protection.WRITE,
        _TO_THE_HOST.format("HOST['hidden']"),
        second=SecondLaunch("open(PLACE + '/ledger.sqlite', 'a').write('forged')", _from_the_outbox),
    ),
    Attack(
        "plant a link on the way to the source of a later mount",
        Threat.PLANTED,
        Protection.READ,
        _TO_THE_HOST.format("HOST['hidden']"),
        second=SecondLaunch("leak(PLACE + '/.ssh/id')", _from_below_the_outbox),
    ),
    Attack(
        "plant a link where a later mount will be",
        Threat.PLANTED,
        Protection.WRITE,
        # bubblewrap has the host's root there while it sets up a trial.
        _TO_THE_HOST.format("'/oldroot' + HOST['hidden']"),
        second=SecondLaunch("", _into_the_outbox),
    ),
    Attack(
        "move the directory above a read-only mount and recreate it",
        Threat.PARENTS,
        Protection.WRITE,
        "os.makedirs(OUT + '/package/eval')",
        second=SecondLaunch(
            """
os.rename(OUT + "/package", OUT + "/old")
os.makedirs(OUT + "/package/eval")
open(OUT + "/package/eval/evaluate.py", "w").write("forged")
claim("a forged file is in the evaluator's place")
""",
            _evaluator_in_the_outbox,
        ),
    ),
)
