"""Both back ends pass the conformance suite."""

import pytest

from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.unsafe import Unsafe
from loopty.testing.sandbox_suite import SandboxConformance


class TestBubblewrap(SandboxConformance):
    @pytest.fixture
    def sandbox(self):
        return Bubblewrap()


class TestUnsafe(SandboxConformance):
    @pytest.fixture
    def sandbox(self):
        return Unsafe()
