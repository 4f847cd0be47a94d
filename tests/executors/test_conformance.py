"""Every executor passes the same suite."""

from contextlib import asynccontextmanager

import pytest

from loopty.domain.trial import Machine
from loopty.executors.local_slots import LocalExecutor, SharedSlots
from loopty.kit.safe_folder import SafeFolder
from loopty.testing.executor_suite import ExecutorConformance

from ..harnesses.pool_harness import PoolHarness


class TestLocalSlots(ExecutorConformance):
    @pytest.fixture
    def make(self, tmp_path):
        @asynccontextmanager
        async def make(evaluate, width):
            yield LocalExecutor(evaluate, SharedSlots(SafeFolder(tmp_path), width), [], Machine({"cpu": "fast"}))

        return make


class TestPool(ExecutorConformance):
    @pytest.fixture
    def make(self):
        @asynccontextmanager
        async def make(evaluate, width):
            harness = PoolHarness(wait_seconds=0.5)
            try:
                for _ in range(width):
                    await harness.add_worker(evaluate)
                yield harness.pool
            finally:
                await harness.close()

        return make
