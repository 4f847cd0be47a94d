"""The watch over a process tree, with a tree whose measurements are slow because the machine is busy."""

import asyncio
import os
import time
from pathlib import Path

from loopty.domain.launch import Bounds, Launch, Stop
from loopty.sandboxes.supervise import supervise

_BUSY_SECONDS = 3.0
_LIMIT_SECONDS = 25.0
"""Less than ten times as long as the machine is busy."""


class _SlowlyMeasuredTree:
    """It exceeds a bound from the second look on; the first one waits long for a core."""

    def __init__(self) -> None:
        ends = [os.pipe() for _ in range(2)]
        for _, write_end in ends:
            os.close(write_end)
        self.pipes = ends[0][0], ends[1][0]
        self._looks = 0
        self._is_dead = asyncio.Event()

    def excess(self) -> Stop | None:
        self._looks += 1
        if self._looks > 1:
            return Stop.DISK
        time.sleep(_BUSY_SECONDS)
        return None

    def kill(self) -> None:
        self._is_dead.set()

    async def wait_until_dead(self) -> None:
        await self._is_dead.wait()

    def kill_and_wait(self) -> None:
        self.kill()


async def test_a_busy_machine_does_not_make_the_watch_look_less_often(tmp_path: Path) -> None:
    bounds = Bounds(seconds=_LIMIT_SECONDS, memory_mb=1, processes=1, output_mb=1, disk_mb=1)
    launch = Launch(("true",), "/", bounds, tmp_path / "stdout", tmp_path / "stderr")
    tree = _SlowlyMeasuredTree()
    try:
        assert await supervise(tree, launch, asyncio.Event()) is Stop.DISK
    finally:
        for pipe in tree.pipes:
            os.close(pipe)
