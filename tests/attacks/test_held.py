"""The back ends hold every attack, whoever starts it."""

from __future__ import annotations

import asyncio
import os

import pytest

from loopty.attacks.attack import Attack
from loopty.attacks.run import Standing, run_attacks
from loopty.attacks.suite import ATTACKS
from loopty.attacks.threats import Threat
from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.landlock import Landlock
from loopty.sandboxes.probe import probe

# Found by this suite and not held yet: what is taken this way shows neither in a file nor in /proc.
UNSEEN = {
    "hide memory in a shared mapping",
    "hide memory in the buffers of sockets",
    "fill the disk with files that are only mapped",
    "fill the disk with files on their way between processes",
}
# Root may look at the descriptors of any process.
UNSEEN_BY_ORDINARY_USERS = UNSEEN | {"fill the disk out of the sight of others"}
ALARMING = (Standing.BROKEN, Standing.UNTRIED)
# An attack that gets through takes as long; the others have all the time that a busy machine needs to stop them.
SHORT_SECONDS, LONG_SECONDS = 2.0, 8.0


async def test_bubblewrap_holds_every_attack(counted):
    sandbox = Bubblewrap()
    seen = [attack for attack in ATTACKS if attack.name not in UNSEEN_BY_ORDINARY_USERS]
    unseen = [attack for attack in ATTACKS if attack.name in UNSEEN_BY_ORDINARY_USERS]
    results = [
        *await run_attacks(sandbox, seen, LONG_SECONDS),
        *await run_attacks(sandbox, unseen, SHORT_SECONDS),
    ]
    for result in results:
        counted(result.standing)
    through = {result.attack.name: result.detail for result in results if result.alarming}
    assert through.keys() == (UNSEEN if os.geteuid() == 0 else UNSEEN_BY_ORDINARY_USERS), through


@pytest.mark.skipif(os.geteuid() != 0, reason="the other test runs as an ordinary user already")
def test_bubblewrap_holds_every_attack_when_an_ordinary_user_starts_it(as_ordinary_user):
    through = got_through(as_ordinary_user, "bubblewrap")
    assert through.keys() == UNSEEN_BY_ORDINARY_USERS, through


def test_landlock_holds_every_attack(as_ordinary_user):
    found = asyncio.run(probe(Landlock()))
    if found.problem:
        pytest.skip(found.problem)
    through = got_through(as_ordinary_user, "landlock")
    assert through.keys() == UNSEEN_BY_ORDINARY_USERS, through


def got_through(as_ordinary_user, kind: str) -> dict[str, str]:
    """Attacks that got through and should not have, with what they achieved."""
    seen = sorted({attack.name for attack in ATTACKS} - UNSEEN_BY_ORDINARY_USERS)
    told = {
        **as_ordinary_user(kind, LONG_SECONDS, seen),
        **as_ordinary_user(kind, SHORT_SECONDS, sorted(UNSEEN_BY_ORDINARY_USERS)),
    }
    assert len(told) == len(ATTACKS)
    return {name: of.detail for name, of in told.items() if of.standing in ALARMING}


def test_every_threat_is_tried_and_every_name_is_one_attack():
    assert {attack.threat for attack in ATTACKS} == set(Threat)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


async def test_a_script_that_never_made_its_attempt_proves_nothing():
    broken = Attack("stumble", Threat.WRITE, None, "raise ValueError('a slip')")
    (result,) = await run_attacks(Bubblewrap(), [broken])
    assert (result.standing, result.alarming) == (Standing.UNTRIED, True)
    assert "a slip" in result.detail
