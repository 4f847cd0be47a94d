"""`loopty doctor --attack`: what it tells, and when it fails."""

from __future__ import annotations

import functools
import json

import pytest
from click.testing import CliRunner

from loopty.attacks.attack import Attack
from loopty.attacks.runner import run_attacks
from loopty.attacks.threats import Threat
from loopty.cli import doctor, doctor_attacks
from loopty.domain.launch import Protection

HELD = Attack("write to the system", Threat.WRITE, Protection.WRITE, "open('/usr/loopty', 'w')")
THROUGH = Attack("write to the outbox", Threat.WRITE, Protection.WRITE, "claim('wrote it')")
ELSEWHERE = Attack("fly", Threat.WRITE, None, "", obstacle=lambda: "there are no wings here")


@pytest.fixture
def told(monkeypatch):
    """What the verb prints when these are all the attacks."""

    def run(*attacks: Attack, words: tuple[str, ...] = ()):
        monkeypatch.setattr(doctor_attacks, "run_attacks", functools.partial(run_attacks, attacks=attacks))
        return CliRunner().invoke(doctor.command, ["--attack", "--sandbox", "bubblewrap", *words])

    return run


def test_each_attack_has_a_line_and_they_are_counted(told):
    said = told(HELD, ELSEWHERE)
    assert said.exit_code == 0
    assert said.output.splitlines() == [
        "not applicable  fly: there are no wings here",
        "held            write to the system: [Errno 30] Read-only file system:",
        "                '/usr/loopty'",
        "bubblewrap: 1 of 1 attacks held, 1 does not apply here",
    ]


def test_an_attack_that_gets_through_fails_the_verb(told):
    said = told(HELD, THROUGH)
    assert said.exit_code == 1
    assert "BROKEN          write to the outbox: wrote it" in said.output
    assert "\nbubblewrap: 1 of 2 attacks held, 1 got through\nBROKEN: a hostile candidate could do" in said.output
    assert max(map(len, said.output.splitlines())) <= 80


def test_what_held_can_be_left_out(told):
    said = told(HELD, THROUGH, ELSEWHERE, words=("--failed",))
    assert said.output.startswith("BROKEN          write to the outbox: wrote it\nbubblewrap: 1 of 2 attacks held")
    assert [row["attack"] for row in json.loads(told(HELD, THROUGH, words=("--failed", "--json")).output)] == [
        THROUGH.name
    ]


def test_machines_read_it_too(told):
    said = told(THROUGH, words=("--json",))
    (row,) = json.loads(said.output)
    assert row.pop("seconds") > 0
    assert row == {
        "attack": "write to the outbox",
        "threat": Threat.WRITE,
        "protection": "write",
        "standing": "BROKEN",
        "detail": "wrote it",
    }


@pytest.mark.parametrize("words", [["--sandbox", "landlock"], ["--failed"]])
def test_some_options_are_for_an_attack_alone(words):
    said = CliRunner().invoke(doctor.command, words)
    assert said.exit_code == 2
    assert f"{words[0]} goes with --attack" in said.output
