"""The back ends hold every attack, as root and as an ordinary user."""

from __future__ import annotations

import asyncio
import os

import pytest

from loopty.features.attacks.attack import Attack, Threat
from loopty.features.attacks.runner import ATTACKS, AttackStanding, run_attacks
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.sandboxes.probe import probe

from ...harnesses.warm_namespaces import WarmNamespaces

ALARMING = (AttackStanding.BROKEN, AttackStanding.UNTRIED)
# As long as a busy machine needs to stop an attack; one that gets through takes this long.
HOLD_SECONDS = 8.0


@pytest.mark.parametrize("make", [Namespaces, WarmNamespaces, Bubblewrap])
async def test_a_back_end_with_namespaces_holds_every_attack(make, count_standing):
    results = await run_attacks(make(), ATTACKS, HOLD_SECONDS)
    for result in results:
        count_standing(result.standing)
    assert {result.attack.name: result.detail for result in results if result.is_alarming} == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="the other test runs as an ordinary user already")
@pytest.mark.parametrize("kind", ["namespaces", "warm", "bubblewrap"])
def test_a_back_end_holds_every_attack_when_an_ordinary_user_starts_it(kind, as_ordinary_user):
    assert harms_of(as_ordinary_user, kind) == {}


def test_landlock_holds_every_attack(as_ordinary_user):
    report = asyncio.run(probe(Landlock()))
    if report.problem:
        pytest.skip(report.problem)
    assert harms_of(as_ordinary_user, "landlock") == {}


def harms_of(as_ordinary_user, kind: str) -> dict[str, str]:
    """What attacks achieved that got through although they should not have, by name."""
    results = as_ordinary_user(kind, HOLD_SECONDS, [attack.name for attack in ATTACKS])
    assert len(results) == len(ATTACKS)
    return {name: result.detail for name, result in results.items() if result.standing in ALARMING}


def test_every_threat_has_an_attack_and_every_attack_its_own_name():
    assert {attack.threat for attack in ATTACKS} == set(Threat)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


async def test_a_script_that_never_made_its_attempt_proves_nothing():
    broken = Attack("fail", Threat.WRITE, None, "raise ValueError('a mistake')")
    (result,) = await run_attacks(Bubblewrap(), [broken])
    assert (result.standing, result.is_alarming) == (AttackStanding.UNTRIED, True)
    assert "a mistake" in result.detail
