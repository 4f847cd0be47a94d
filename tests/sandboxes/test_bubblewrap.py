"""Bubblewrap passes every conformance suite."""

from __future__ import annotations

import pytest

from loopty.domain.launch import SandboxError
from loopty.kit.records import replace
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.testing.sandbox_suite import BoundConformance, IsolationConformance, SandboxConformance


class TestBubblewrap(SandboxConformance, IsolationConformance, BoundConformance):
    runs = 200

    @pytest.fixture
    def sandbox(self):
        return Bubblewrap()


async def test_the_message_about_a_missing_bubblewrap_has_the_remedy(harness, monkeypatch):
    monkeypatch.setenv("PATH", "")
    missing = replace(harness, sandbox=Bubblewrap())
    with pytest.raises(SandboxError, match="apt install bubblewrap"):
        await missing.run(harness.launch("/bin/true"))
