"""Real commands in a real sandbox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loopty.domain.launch import Sandbox
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.testing.sandbox_harness import SandboxHarness


@pytest.fixture(params=[Namespaces, Bubblewrap])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> SandboxHarness:
    """Each of the back ends with namespaces: a trial must not see a difference."""
    return SandboxHarness.create(tmp_path, request.param())


@pytest.fixture
def harness_of(tmp_path: Path) -> Callable[[Sandbox], SandboxHarness]:
    """Make a harness around another sandbox."""
    return lambda sandbox: SandboxHarness.create(tmp_path, sandbox)
