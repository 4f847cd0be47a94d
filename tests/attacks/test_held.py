"""The back ends hold every attack, whoever starts it."""

from __future__ import annotations

import asyncio
import os

import pytest

from loopty.attacks.attack import Attack
from loopty.attacks.runner import AttackStanding, run_attacks
from loopty.attacks.suite import ATTACKS
from loopty.attacks.threats import Threat
from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.landlock import Landlock
from loopty.sandboxes.probe import probe

ALARMING = (AttackStanding.BROKEN, AttackStanding.UNTRIED)
# All the time that a busy machine needs to stop an attack; one that gets through takes as long.
HOLD_SECONDS = 8.0


async def test_bubblewrap_holds_every_attack(counted):
    results = await run_attacks(Bubblewrap(), ATTACKS, HOLD_SECONDS)
    for result in results:
        counted(result.standing)
    assert {result.attack.name: result.detail for result in results if result.is_alarming} == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="the other test runs as an ordinary user already")
def test_bubblewrap_holds_every_attack_when_an_ordinary_user_starts_it(as_ordinary_user):
    assert got_through(as_ordinary_user, "bubblewrap") == {}


def test_landlock_holds_every_attack(as_ordinary_user):
    found = asyncio.run(probe(Landlock()))
    if found.problem:
        pytest.skip(found.problem)
    assert got_through(as_ordinary_user, "landlock") == {}


def got_through(as_ordinary_user, kind: str) -> dict[str, str]:
    """Attacks that got through and should not have, with what they achieved."""
    told = as_ordinary_user(kind, HOLD_SECONDS, [attack.name for attack in ATTACKS])
    assert len(told) == len(ATTACKS)
    return {name: of.detail for name, of in told.items() if of.standing in ALARMING}


def test_every_threat_is_tried_and_every_name_is_one_attack():
    assert {attack.threat for attack in ATTACKS} == set(Threat)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


async def test_a_script_that_never_made_its_attempt_proves_nothing():
    broken = Attack("stumble", Threat.WRITE, None, "raise ValueError('a slip')")
    (result,) = await run_attacks(Bubblewrap(), [broken])
    assert (result.standing, result.is_alarming) == (AttackStanding.UNTRIED, True)
    assert "a slip" in result.detail
