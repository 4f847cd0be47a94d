"""A repository with a made-up record, a server for it, and a small client that says exactly what it sends."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.objective import Objective
from loopty.domain.trial import Effect, Pool, Verdict
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.nodes import ProposalRefused
from loopty.record.sessions import RunStarted, SessionEnded, SessionStarted
from loopty.record.trials import MachineSeen
from loopty.web.server import Address, DashboardServer, PageAccess, StaticFiles

from .story import Story, commit, make_repository

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


def tell(top: Path) -> Story:
    """A run with every kind of verdict, a control, model calls and a refused proposal."""
    story = Story(top)
    base, changed = (commit(top, "x.txt", text) for text in ("one\n", "two\n"))
    story.record(
        RunStarted(1, "c", Objective(), 0, "the first run", secret="s"),
        MachineSeen(1, "f", {"cpu": "a cpu"}),
        SessionStarted(1, "gone"),
    )
    story.node("1", base, 1.0, Verdict.KEPT, operator="baseline")
    story.record(CallReserved(1, "c1", "evolver", 100, 0.5, "gone", "strong", "diff", NodeId("1"), Pool.ATTEMPT))
    story.record(CallSettled(1, "c1", 80, 0.25, Usage(50, 30)))
    effect = Effect("score", 0.5, 6, 0.05)
    story.node("1.1", changed, 1.5, Verdict.KEPT, effect=effect, calls=("c1",), params={"x": 3})
    story.node("1.2", changed, 0.5, Verdict.DISCARDED, summary=HOSTILE, params={"x": 1})
    story.node("1.3", changed, None, Verdict.DISCARDED)
    story.node("1.4", changed, 1.1, Verdict.INCONCLUSIVE)
    story.node("1.5", changed, 1.2, Verdict.DISCARDED, pool=Pool.CONTROL, operator="random")
    story.node("1.1.1", changed, 9.0, Verdict.HELD)
    story.record(
        ProposalRefused(1, Pool.ATTEMPT, "diff", "known already"),
        SessionEnded(1, "all 10 attempt trials are spent"),
    )
    return story


@pytest.fixture
def top(tmp_path) -> Path:
    folder = tmp_path / "work"
    make_repository(folder, "x.txt", attempts=10)
    return folder


@pytest.fixture
def story(top) -> Story:
    return tell(top)


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self):
        return json.loads(self.body)


class Client:
    """Sends one request per connection."""

    def __init__(self, server: DashboardServer, port: int) -> None:
        self.server, self.port = server, port
        self.token = server.access.token

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(self, method, path, body=b"", **headers):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        known = {"host": f"127.0.0.1:{self.port}", "x-loopty-token": self.token, "content-length": str(len(body))}
        lines = {**known, **{name.replace("_", "-"): value for name, value in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        return reader, writer

    async def send(self, method, path, body=b"", **headers) -> Reply:
        reader, writer = await self.open(method, path, body, **headers)
        async with asyncio.timeout(60):
            content = await reader.read()
        writer.close()
        head, _, rest = content.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        found = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Reply(int(first.split()[1]), found, rest)

    async def get(self, path, **headers) -> Reply:
        return await self.send("GET", path, **headers)

    async def act(self, name, **body) -> Reply:
        return await self.send(
            "POST",
            f"/api/actions/{name}",
            json.dumps(body).encode(),
            origin=self.origin,
            content_type="application/json",
        )


@asynccontextmanager
async def serve(top: Path, static: StaticFiles | None = None):
    """A client of a running server that knows its token."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    port = listener.getsockname()[1]
    server = DashboardServer(top, PageAccess(Address("127.0.0.1", port)), static)
    task = asyncio.create_task(server.serve([listener]))
    client = Client(server, port)
    try:
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
