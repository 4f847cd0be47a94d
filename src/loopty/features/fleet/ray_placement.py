"""The process that talks to Ray for a driver: it has Ray place workers, and says how each ended.

A process of its own, because Ray ends a process whose connection to the cluster breaks, and the driver has to
outlive its cluster. It reads orders from standard input and writes notes to standard output, one JSON object a
line. When the driver is gone, its input ends, and so does it; then Ray ends what it has placed.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from loopty.features.fleet.cluster_spec import WORKER, WorkerEnd, run_worker
from loopty.features.fleet.door import WorkerUrl
from loopty.kit.records import Record, field, replace
from loopty.record.workers import worker_name_on

_ANSWER_SECONDS = 10.0
_CONNECT_SECONDS = 180.0
_LOOK_SECONDS = 0.3
_NODES_SECONDS = 2.0
_FORCE_SECONDS = 3.0
"""How long a worker that the pool sent away may take to end before its process is killed."""


class PlacementOrder(Record):
    """Where and how to place workers: the first line that the process reads."""

    address: str
    url: str
    cpus: float = 1.0
    gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    is_private: bool = False
    program: tuple[str, ...] = WORKER

    def request(self) -> dict[str, float]:
        """Return what a worker occupies on its node, by Ray's names."""
        asked = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        return {name: amount for name, amount in asked.items() if amount}


class Unusable(Exception):  # noqa: N818 - named after the cluster
    """The cluster cannot be used; the message says what to do."""


class Placement:
    """Workers on one Ray cluster."""

    def __init__(self, order: PlacementOrder, ray: Any, notes: DriverNotes) -> None:
        self._order = order
        self._ray = ray
        self._notes = notes
        self._own_address = ray.util.get_node_ip_address()
        self._url = _reachable(order.url, self._own_address)
        self._refs: dict[Any, int] = {}
        self._deadlines: dict[int, float] = {}
        self._nodes: list[dict[str, Any]] = []
        self._is_short = False

    def place(self, number: int) -> None:
        """Have Ray start a worker on a node with room for it. Ray itself repeats nothing."""
        order = self._order
        task = self._ray.remote(
            num_cpus=order.cpus,
            num_gpus=order.gpus,
            resources=dict(order.resources),
            scheduling_strategy="SPREAD",
            max_retries=0,  # the driver places a lost worker again
            max_calls=1,  # the process on the node ends with its worker
        )(run_on_node)
        self._refs[task.remote(self._url, order.program)] = number

    def stop(self, number: int) -> None:
        """End a worker, or the wait for a place, unless it ends by itself in time."""
        self._deadlines.setdefault(number, time.monotonic() + _FORCE_SECONDS)

    def take_ends(self) -> None:
        """Report the workers that have ended; kill those that should have."""
        if not self._refs:
            return
        done, _ = self._ray.wait(list(self._refs), num_returns=len(self._refs), timeout=0)
        for ref in done:
            number = self._refs.pop(ref)
            self._deadlines.pop(number, None)
            self._notes.send(ended=number, **self._end(ref))
        for ref, number in self._refs.items():
            if time.monotonic() > self._deadlines.get(number, float("inf")):
                self._deadlines[number] = float("inf")
                # No trial relies on it: Ray's tasks return a normal value after a forced cancel.
                self._ray.cancel(ref, force=True)

    def _end(self, ref: Any) -> dict[str, Any]:
        faults = self._ray.exceptions
        try:
            end: WorkerEnd = self._ray.get(ref)
        except faults.TaskCancelledError:
            return {"reason": "it was stopped", "is_lost": False}
        except faults.RayTaskError as error:
            return {"reason": _last_line(error), "is_lost": False}
        except faults.RayError as error:  # the process, the node or its memory is gone
            return {"reason": f"Ray lost it ({type(error).__name__})", "is_lost": True}
        return {"reason": end.text, "is_lost": end.is_kill}

    def look_at_nodes(self) -> None:
        """Report the nodes where they changed. Raises Unusable when others could read the URL on its way."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        far = sorted({node["NodeManagerAddress"] for node in alive} - {self._own_address})
        far = [address for address in far if not _is_loopback(address)]
        # The URL is the one secret that goes through Ray.
        if far and not self._order.is_private and os.environ.get("RAY_USE_TLS") != "1":
            raise Unusable(
                f"Ray would send the workers' URL, which is a secret, to {far[0]} unencrypted: set up Ray's TLS "
                "(RAY_USE_TLS=1), or add network=private to the entry where nobody else can listen"
            )
        nodes = [_node_facts(node) for node in alive]
        if nodes != self._nodes:
            self._nodes = nodes
            self._notes.send(nodes=nodes)
            self._say_where_short()

    def _say_where_short(self) -> None:
        """Say that no node has what a worker asks for: Ray would wait for such a node without a word."""
        request = self._order.request()
        is_short = not any(
            all(node["resources"].get(name, 0) >= amount for name, amount in request.items())
            for node in self._nodes
        )
        if is_short and not self._is_short:
            asked = ", ".join(f"{name} {amount:g}" for name, amount in request.items())
            self._notes.send(say=f"no node of Ray has {asked} yet: the workers wait for one that has")
        self._is_short = is_short


def run_on_node(url: str, program: tuple[str, ...]) -> WorkerEnd:
    """Run a worker where Ray calls this; its name tells the node."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    return run_worker(url, ("--name", worker_name_on(node)), program)


class DriverNotes:
    """What goes to the driver."""

    def __init__(self) -> None:
        # A copy, so that nothing that Ray prints comes between two notes.
        self._stream = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, **note: Any) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            print(json.dumps(note), file=self._stream, flush=True)

    def fail(self, reason: str) -> None:
        """Say why nothing can be placed, and end at once: Ray's own threads may hang."""
        self.send(failed=reason)
        os._exit(1)


def main() -> None:
    notes = DriverNotes()
    import ray

    data = json.loads(sys.stdin.readline())
    order = PlacementOrder(**{**data, "program": tuple(data["program"])})
    orders: queue.SimpleQueue[dict[str, int]] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
    shown = order.address or "the address of this machine's cluster"
    limit = threading.Timer(
        _CONNECT_SECONDS, notes.fail, (f"Ray does not answer at {shown}: is it started there?",)
    )
    limit.daemon = True
    limit.start()
    try:
        require_answer(order.address)
        ray.init(address=order.address or "auto", log_to_driver=False, logging_level="ERROR")
        placement = Placement(order, ray, notes)
        placement.look_at_nodes()
        limit.cancel()
        _serve(placement, orders)
    except Unusable as error:
        notes.fail(str(error))
    except Exception as error:  # noqa: BLE001 - the edge of this process; the driver shows it
        notes.fail(f"Ray at {shown}: {_last_line(error)}")


def require_answer(address: str) -> None:
    """Raise Unusable where nobody listens: Ray itself would try for minutes, and name no remedy."""
    host, _, port = address.rpartition(":")
    if not host:
        return  # the cluster of this machine, which Ray finds
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
    except OSError as error:
        raise Unusable(
            f"no Ray cluster answers at {address} ({error.strerror or error}): start one there with "
            f"`ray start --head --port={port}`"
        ) from None


def _serve(placement: Placement, orders: queue.SimpleQueue[dict[str, int]]) -> None:
    looked = time.monotonic()
    while True:
        with contextlib.suppress(queue.Empty):
            while order := orders.get(timeout=_LOOK_SECONDS):
                if "place" in order:
                    placement.place(order["place"])
                elif "stop" in order:
                    placement.stop(order["stop"])
        placement.take_ends()
        if time.monotonic() - looked > _NODES_SECONDS:
            placement.look_at_nodes()
            looked = time.monotonic()


def _read_orders(orders: queue.SimpleQueue[dict[str, int]]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)  # the driver is gone; Ray ends the workers of a job whose process is gone


def _reachable(url: str, own_address: str) -> str:
    """Give the URL by the address that the nodes know: a machine's name may mean nothing to them."""
    found = WorkerUrl.parse(url)
    return str(replace(found, host=own_address) if found.host == socket.gethostname() else found)


def _node_facts(node: Mapping[str, Any]) -> dict[str, Any]:
    resources = {
        name: amount
        for name, amount in sorted(node["Resources"].items())
        if not name.startswith("node:") and name not in ("memory", "object_store_memory")
    }
    return {
        "id": node["NodeID"],
        "name": str(node.get("NodeManagerHostname", "")),
        "address": node["NodeManagerAddress"],
        "resources": resources,
    }


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:500]
