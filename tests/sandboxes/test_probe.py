"""Whether this machine can sandbox a trial, and what to do when it cannot."""

from __future__ import annotations

import pytest

from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.probe import probe
from loopty.sandboxes.remedies import remedy


async def test_a_working_sandbox_is_told():
    found = await probe(Bubblewrap())
    assert (found.name, found.ok, found.problem) == ("bubblewrap", True, "")


async def test_a_missing_program_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setenv("PATH", "")
    found = await probe(Bubblewrap())
    assert not found.ok
    assert "apt install bubblewrap" in found.problem


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Unknown option --disable-userns", "too old"),
        ("No permissions to create new namespace, likely because", "user namespaces"),
        ("setting up uid map: Permission denied", "user namespaces"),
        ("Can't find source path /absent: No such file or directory", ""),
    ],
)
def test_a_message_has_its_remedy(message, advice):
    assert advice in remedy(message)
    assert bool(advice) == bool(remedy(message))
