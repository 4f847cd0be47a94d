"""A worker in another process whose trials are calls of a function in the process of a test.

So the suite of executors runs on workers that a cluster has placed: the worker joins as `loopty system worker` does,
and asks the test by a Unix socket what each trial gives.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loopty.domain.errors import LooptyError
from loopty.domain.objective import Directions
from loopty.domain.trial import Machine, Outcome, Row
from loopty.engine.protocols import OnMetrics, Trial
from loopty.features.fleet.door import WorkerUrl, connect
from loopty.features.fleet.worker_client import WorkerClient
from loopty.testing.executor_suite import Evaluate

from .pool_harness import HERE, FunctionBench

_LONGEST_LINE = 1 << 24
_START = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from harnesses.relay_worker import main
main()
"""


def worker_program(path: str) -> tuple[str, ...]:
    """Return the arguments of Python that start a worker, which asks at this path."""
    return "-c", _START, path


async def serve_function(path: str, evaluate: Evaluate) -> asyncio.Server:
    """Answer the workers that ask at this path by calling a function."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, trial = await _receive(reader)
        cancel, reasons = asyncio.Event(), list[str]()

        def on_metrics(rows: Sequence[Row], directions: Directions) -> str | None:
            _send(writer, "rows", (list(rows), dict(directions)))
            return reasons[-1] if reasons else None

        async def listen() -> None:
            while True:
                kind, value = await _receive(reader)
                if kind == "cancel":
                    cancel.set()
                else:
                    reasons.append(value)

        listener = asyncio.create_task(listen())
        try:
            _send(writer, "end", await evaluate(trial, on_metrics, cancel))
        except LooptyError as error:
            _send(writer, "error", error)
        finally:
            with contextlib.suppress(LooptyError, OSError):
                await listener  # the worker hangs up: what it still sends must not break its reading
            writer.close()

    return await asyncio.start_unix_server(answer, path, limit=_LONGEST_LINE)


def _asker(path: str) -> Evaluate:
    async def evaluate(trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        reader, writer = await asyncio.open_unix_connection(path, limit=_LONGEST_LINE)

        async def pass_cancel() -> None:
            await cancel.wait()
            _send(writer, "cancel", None)

        watch = asyncio.create_task(pass_cancel())
        try:
            _send(writer, "trial", trial)
            is_stopped = False
            while True:
                kind, value = await _receive(reader)
                if kind == "end":
                    outcome: Outcome = value
                    return outcome
                if kind == "error":
                    raise value
                if not is_stopped and (reason := on_metrics(*value)):
                    is_stopped = True
                    _send(writer, "stop", reason)
        finally:
            watch.cancel()
            writer.close()

    return evaluate


def _send(writer: asyncio.StreamWriter, kind: str, value: Any) -> None:
    if not writer.is_closing():
        writer.write(base64.b64encode(pickle.dumps((kind, value))) + b"\n")


async def _receive(reader: asyncio.StreamReader) -> tuple[str, Any]:
    line = await reader.readline()
    if not line:
        raise LooptyError("the test is gone")
    kind, value = pickle.loads(base64.b64decode(line))
    return kind, value


async def _work(path: str, name: str) -> None:
    url = WorkerUrl.parse(os.environ["LOOPTY_WORKER_URL"])
    bench = FunctionBench(_asker(path), Machine(HERE))
    await WorkerClient(name, url.token, bench, lambda _: None).work(await connect(url))


def main() -> None:
    asyncio.run(_work(sys.argv[1], sys.argv[-1]))
