"""Workers that Ray places: the driver's side of the process that talks to Ray."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from typing import Any

from loopty.domain.declared_types import misfit
from loopty.domain.errors import Misuse
from loopty.features.fleet.cluster_spec import WORKER, ClusterSpec, last_line
from loopty.kit import codec
from loopty.kit.records import Record
from loopty.record.workers import ClusterNode

# Not with -m: Ray finds a function on the nodes by the name of its module.
_PLACEMENT = ("-c", "from loopty.features.fleet.ray_placement import main; main()")
_STOP_SECONDS = 40.0
_LONGEST_PAUSE = 30.0
_LONGEST_LINE = 4 << 20

NoteNodes = Callable[[str, Sequence[ClusterNode]], None]
"""Takes the nodes that a cluster has now."""


class _End(Record):
    """Why a worker ended; a lost one is placed again."""

    reason: str
    is_lost: bool = False


class RayPlacer:
    """Keeps workers on one Ray cluster. One process talks to it, as long as a worker is wanted."""

    def __init__(
        self,
        spec: ClusterSpec,
        url: Callable[[], str],
        say: Callable[[str], None],
        note_nodes: Callable[[Sequence[ClusterNode]], None],
        program: Sequence[str] = WORKER,
    ) -> None:
        if spec.place.startswith("//"):
            raise Misuse(
                f"[executor] hosts names {spec.host!r}: start the driver on a machine of the cluster, and give "
                "ray:ADDRESS:PORT, or ray: for the cluster that runs there"
            )
        self._spec = spec
        self._order = {
            "address": spec.place,
            "cpus": spec.number("cpus", 1),
            "gpus": spec.number("gpus", 0),
            "resources": spec.resources(),
            "is_private": spec.is_private(),
            "program": list(program),
        }
        self._url = url
        self._say = say
        self._note_nodes = note_nodes
        self._numbers = itertools.count(1)
        self._ends: dict[int, asyncio.Future[_End]] = {}
        self._wanted = 0
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def run(self) -> str:
        """Keep one worker on the cluster: a lost one is placed again. Returns why there will be no other."""
        self._wanted += 1
        pause = 1.0
        try:
            while (end := await self._run_once()).is_lost:
                self._say(f"a worker of {self._spec.host} is gone: {end.reason}; it is placed again")
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)
            return end.reason
        finally:
            self._wanted -= 1
            if not self._wanted:
                await asyncio.shield(self._close())

    async def _run_once(self) -> _End:
        number = next(self._numbers)
        self._ends[number] = end = asyncio.get_running_loop().create_future()
        try:
            async with self._lock:
                if self._process is None:
                    await self._start()
            self._send(place=number)
            return await asyncio.shield(end)
        except asyncio.CancelledError:
            self._send(stop=number)
            await asyncio.wait({end}, timeout=_STOP_SECONDS)
            raise
        finally:
            self._ends.pop(number, None)

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *_PLACEMENT,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=_LONGEST_LINE,
            start_new_session=True,
        )
        self._send(**self._order, url=self._url())
        self._reader = asyncio.create_task(self._read(self._process))

    def _send(self, **order: Any) -> None:
        if self._process and self._process.stdin and not self._process.stdin.is_closing():
            self._process.stdin.write(f"{json.dumps(order)}\n".encode())

    async def _read(self, process: Process) -> None:
        """Take the notes of the process until it ends; then nothing is placed any more."""
        assert process.stdout is not None
        assert process.stderr is not None
        messages = asyncio.create_task(last_line(process.stderr))
        reason = ""
        async for line in process.stdout:
            note = json.loads(line)
            if "ended" in note:
                self._set_end(note["ended"], _End(note["reason"], note["is_lost"]))
            elif "nodes" in note:
                self._note_nodes(
                    list(filter(self._is_sound, (codec.build(ClusterNode, n) for n in note["nodes"])))
                )
            elif "say" in note:
                self._say(note["say"])
            elif "failed" in note:
                reason = note["failed"]
        await process.wait()
        reason = reason or await messages or "the process that talks to Ray ended"
        messages.cancel()
        self._process = None
        self._note_nodes([])
        for number in list(self._ends):
            self._set_end(number, _End(reason))

    def _is_sound(self, node: ClusterNode) -> bool:
        """Say whether a node can be recorded; one that cannot is left out, and the user hears why."""
        fault = misfit(node)
        if fault:
            self._say(f"a node of {self._spec.host} is not recorded: {fault}")
        return not fault

    def _set_end(self, number: int, end: _End) -> None:
        if (future := self._ends.get(number)) and not future.done():
            future.set_result(end)

    async def _close(self) -> None:
        """End the process; Ray ends whatever it has placed and is left."""
        process, reader = self._process, self._reader
        if process and process.stdin:
            process.stdin.close()
        if reader:
            await asyncio.wait({reader}, timeout=_STOP_SECONDS)
        if process and process.returncode is None:
            process.kill()
            await process.wait()
