"""Copies of warm processes pass the conformance suites that every other command passes."""

from __future__ import annotations

import pytest

from loopty.testing.sandbox_suite import BoundConformance, IsolationConformance, SandboxConformance

from ..harnesses.warm_namespaces import WarmNamespaces


class TestWarmNamespaces(SandboxConformance, IsolationConformance, BoundConformance):
    runs = 100

    @pytest.fixture
    def sandbox(self):
        return WarmNamespaces()
