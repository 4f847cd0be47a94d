"""Many workers in one process that join a real driver over TLS and answer trials after a pause.

python benchmarks/simulated_workers.py COUNT SECONDS < URL
"""

import asyncio
import contextlib
import random
import resource
import sys

from from_tests import FunctionBench

from loopty.domain.trial import Machine, Outcome
from loopty.engine.protocols import OnMetrics, Trial
from loopty.features.fleet.door import WorkerUrl, connect
from loopty.features.fleet.messages import LinkLost
from loopty.features.fleet.worker_client import WorkerClient
from loopty.testing.fakes import outcome_of_score

_AT_ONCE = 20
"""Workers that join at the same time: a handshake of TLS takes both ends some milliseconds."""


async def main(count: int, seconds: float, url: WorkerUrl) -> None:
    turn, rng = asyncio.Semaphore(_AT_ONCE), random.Random(1)

    async def evaluate(trial: Trial, _on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cancel.wait(), seconds * rng.uniform(0.5, 1.5))
        return outcome_of_score(float(trial.node.params.get("x", 0.0)))

    async def work(number: int) -> None:
        client = WorkerClient(f"simulated-{number}", url.token, FunctionBench(evaluate, _MACHINE), lambda _: None)
        async with turn:
            link = await connect(url)
        with contextlib.suppress(LinkLost):
            await client.work(link)

    await asyncio.gather(*(work(number) for number in range(count)))


_MACHINE = Machine({"cpu": "simulated"})

if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), WorkerUrl.parse(sys.stdin.read())))
