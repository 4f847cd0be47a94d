"""`loopty doctor --attack`: what it prints, and when it fails."""

from __future__ import annotations

import functools
import json

import pytest
from click.testing import CliRunner

from loopty.cli import doctor, doctor_attacks
from loopty.domain.launch import Protection
from loopty.features.attacks.attack import Attack, Threat
from loopty.features.attacks.runner import run_attacks

HELD = Attack("write to the system", Threat.WRITE, Protection.WRITE, "open('/usr/loopty', 'w')")
THROUGH = Attack("write to the outbox", Threat.WRITE, Protection.WRITE, "claim('wrote it')")
ELSEWHERE = Attack("fly", Threat.WRITE, None, "", obstacle=lambda: "there are no wings here")


@pytest.fixture
def run_doctor(monkeypatch):
    """Run the command as if these were all the attacks."""

    def run(*attacks: Attack, words: tuple[str, ...] = ()):
        monkeypatch.setattr(doctor_attacks, "run_attacks", functools.partial(run_attacks, attacks=attacks))
        return CliRunner().invoke(doctor.doctor_verb, ["--attack", "--sandbox", "bubblewrap", *words])

    return run


def test_each_attack_has_a_line_and_they_are_counted(run_doctor):
    result = run_doctor(HELD, ELSEWHERE)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "not applicable  fly: there are no wings here",
        "held            write to the system: [Errno 30] Read-only file system:",
        "                '/usr/loopty'",
        "bubblewrap: 1 of 1 attacks held, 1 does not apply here",
    ]


def test_the_command_fails_when_an_attack_gets_through(run_doctor):
    result = run_doctor(HELD, THROUGH)
    assert result.exit_code == 1
    assert "BROKEN          write to the outbox: wrote it" in result.output
    assert (
        "\nbubblewrap: 1 of 2 attacks held, 1 got through\nBROKEN: a hostile candidate could do" in result.output
    )
    assert max(map(len, result.output.splitlines())) <= 80


def test_attacks_that_were_held_can_be_left_out(run_doctor):
    result = run_doctor(HELD, THROUGH, ELSEWHERE, words=("--failed",))
    assert result.output.startswith(
        "BROKEN          write to the outbox: wrote it\nbubblewrap: 1 of 2 attacks held"
    )
    assert [
        row["attack"] for row in json.loads(run_doctor(HELD, THROUGH, words=("--failed", "--json")).output)
    ] == [THROUGH.name]


def test_the_results_can_be_printed_as_json(run_doctor):
    result = run_doctor(THROUGH, words=("--json",))
    (row,) = json.loads(result.output)
    assert row.pop("seconds") > 0
    assert row == {
        "attack": "write to the outbox",
        "threat": Threat.WRITE,
        "protection": "write",
        "standing": "BROKEN",
        "detail": "wrote it",
    }


@pytest.mark.parametrize("words", [["--sandbox", "landlock"], ["--failed"]])
def test_some_options_need_the_attack_option(words):
    result = CliRunner().invoke(doctor.doctor_verb, words)
    assert result.exit_code == 2
    assert f"{words[0]} goes with --attack" in result.output
