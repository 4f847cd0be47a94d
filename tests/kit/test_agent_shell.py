"""A coding agent is known by the variables of its shell: what it edits there, no person has looked at."""

from __future__ import annotations

import pytest

from loopty.cli.verdicts import approve_verb
from loopty.domain.errors import Misuse
from loopty.kit.agent_shell import agent_in_shell


def test_the_shell_of_an_agent_says_so() -> None:
    assert agent_in_shell({"PATH": "/bin", "CLAUDECODE": "1"}) == "Claude Code"
    assert agent_in_shell({"PATH": "/bin", "CLAUDECODE": ""}) == ""


def test_only_a_person_accepts_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_SANDBOX", "seatbelt")
    assert approve_verb.callback
    with pytest.raises(Misuse, match="a person accepts what is held, and Codex types here"):
        approve_verb.callback(node="1.1", why="so", unsafe=False)
