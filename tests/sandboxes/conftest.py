"""Real commands in a real sandbox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loopty.domain.launch import Sandbox
from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.testing.sandbox_harness import SandboxHarness


@pytest.fixture
def harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness.create(tmp_path, Bubblewrap())


@pytest.fixture
def harness_of(tmp_path: Path) -> Callable[[Sandbox], SandboxHarness]:
    """Make a harness around another sandbox."""
    return lambda sandbox: SandboxHarness.create(tmp_path, sandbox)
