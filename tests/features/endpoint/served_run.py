"""A run whose trials are served a model, paid from a purse over a ledger in memory."""

import contextlib
import secrets
import socket

import httpx2

from loopty.domain.ids import NodeId
from loopty.domain.model import ModelSpec, RoleBudget, Roles
from loopty.domain.task import Pools
from loopty.features.endpoint.endpoint import make_endpoint
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.archive import Archive
from loopty.models.catalogue import Catalogue
from loopty.models.purse import RunPurse
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import run_events

from ...models.timing import Time

KEY = "sk-the-real-key-0123456789"
MODEL = "the-model"


class ServedRun:
    """Serves trials of node 1.2 of one run."""

    def __init__(self, folder, pools=None, budget=None, more=None, **spec):
        self.folder = folder
        self.ledger = MemoryLedger()
        self.recorder = Recorder(self.ledger, lambda: 0.0)
        self.recorder.record(lambda _: run_events())
        self.budget = budget or RoleBudget("user", cache="never")
        purse = RunPurse(self.recorder, 1, pools or Pools(), "me", Roles(user=self.budget))
        time = Time()
        defaults = {"provider": "openai", "model": MODEL, "key_env": "REAL_KEY", "max_output_tokens": 100}
        specs = {"user": ModelSpec(**{**defaults, **spec})}
        for name, model in (more or {}).items():
            specs[name] = ModelSpec(**{**defaults, **spec, "model": model})
        catalogue = Catalogue(specs, {"REAL_KEY": KEY}, folder, time.clock, time.sleep)
        self.serving = make_endpoint(
            catalogue,
            self.budget,
            purse,
            Archive(SafeFolder(folder, ("calls",))),
            SafeFolder(folder, ("model-cache",)),
        )
        self.place = ""

    @contextlib.asynccontextmanager
    async def trial(self):
        """A client with the trial's key, and the trial's access."""
        self.place = place = str(self.folder / secrets.token_hex(4))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place)
            listener.listen(64)
            listener.setblocking(False)
            # The client is closed last: one that closes while it waits for an answer confuses the event loop.
            async with make_client(place) as client, self.serving(NodeId("1.2"), listener) as access:
                client.headers["authorization"] = f"Bearer {access.key}"
                yield client, access

    @property
    def run(self):
        return self.recorder.history.runs[1]

    @property
    def reserved(self):
        return [event.event for event in self.ledger.read() if isinstance(event.event, CallReserved)]

    @property
    def settled(self):
        return [event.event for event in self.ledger.read() if isinstance(event.event, CallSettled)]


def make_client(place):
    transport = httpx2.AsyncHTTPTransport(uds=place, verify=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://model", timeout=60)


def chat(text="hello", **more):
    return {"model": "whatever", "messages": [{"role": "user", "content": text}], **more}
