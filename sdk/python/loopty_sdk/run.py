"""One run of a benchmark, and what it reports: scores of tasks, a learning curve, a result."""

from __future__ import annotations

import json
import os
import sys
import time
from _thread import allocate_lock  # threading takes half as long to import as Python to start

from .figures import finite_number
from .publish import publish_once, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

    from .metrics import MetricsStream


class Run:
    """The benchmark's side of the contract; the constructor reads the environment variables.

    Outside loopty every variable is unset: the result goes to standard output and nothing else is written, so that
    a benchmark runs by hand unchanged. Threads may share a run; several processes may share only `report`.
    """

    def __init__(self) -> None:
        self.experiment_id = os.environ.get("EVO_EXPERIMENT_ID") or "unknown"
        self.mode = os.environ.get("LOOPTY_MODE") or "attempt"
        self.slice = os.environ.get("LOOPTY_SLICE") or ""
        seed = os.environ.get("LOOPTY_SEED")
        self.seed = int(seed) if seed else None
        self._params: dict[str, Any] | None = None
        self._result_path = _path("EVO_RESULT_PATH")
        self._traces = _path("EVO_TRACES_DIR")
        self._stop_path = _path("LOOPTY_STOP_PATH")
        self._metrics: MetricsStream | None = None
        # Benchmarks often redirect sys.stdout while they work; the result goes to the original one.
        self._stdout = sys.stdout
        self._lock = allocate_lock()
        self._tasks: dict[str, float] = {}
        self._directions: dict[str, str] = {}
        self._started_at = _now()
        self._finished = False

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the trial; empty outside loopty."""
        if self._params is None:
            self._params = _read_params(_path("LOOPTY_PARAMS"))
        return self._params

    def log_task(
        self,
        task_id: object,
        score: float,
        *,
        status: str | None = None,
        summary: str | None = None,
        failure_reason: str | None = None,
        log: object = None,
        direction: str | None = None,
    ) -> None:
        """Record the score of one task as it ends, with a trace of how it went.

        `log` is any JSON value. Give `direction` ("max" or "min") only where it differs from the benchmark's.
        """
        name = str(task_id)
        number = finite_number(score, f"the score of task {name!r}")
        if direction not in (None, "max", "min"):
            raise ValueError(f"direction must be 'max' or 'min', not {direction!r}")
        details = {
            "status": status,
            "summary": summary,
            "failure_reason": failure_reason,
            "log": log,
            "direction": direction,
        }
        trace = {"experiment_id": self.experiment_id, "task_id": name, "score": number, "ended_at": _now()}
        trace.update((key, value) for key, value in details.items() if value is not None)
        text = json.dumps(trace, allow_nan=False)
        with self._lock:
            if name in self._tasks:
                raise ValueError(f"task {name!r} already has a score: give each repeat its own id")
            self._tasks[name] = number
            if direction is not None:
                self._directions[name] = direction
        if self._traces is not None:
            replace(f"{self._traces}/{_trace_name(name)}", text)

    def report(self, step: int, metrics: Mapping[str, float] | None = None, /, **named: float) -> None:
        """Add one row to the learning curve; every row has the columns of the first.

        Use a mapping for names that are not identifiers: {"latency ms (lower is better)": 3.2}.
        """
        if self._metrics is None:
            from .metrics import MetricsStream

            self._metrics = MetricsStream(_path("LOOPTY_METRICS_CSV"))
        self._metrics.append(step, metrics or {}, named)

    def should_stop(self) -> bool:
        """Whether the trial should end early: finish soon, because it is killed after a grace period."""
        return self._stop_path is not None and os.path.exists(self._stop_path)  # noqa: PTH110

    def finish(self, score: float | None = None) -> dict[str, object]:
        """Publish the result, once; without a score, it is the mean of the tasks' scores."""
        with self._lock:
            if self._finished:
                raise RuntimeError("this run is already finished: a trial has one result")
            result = self._result(score)
            text = json.dumps(result, allow_nan=False)
            self._finished = True
        if self._result_path is None:
            print(text, file=self._stdout, flush=True)
        else:
            publish_once(self._result_path, text)
        return result

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and not self._finished:
            self.finish()

    def _result(self, score: float | None) -> dict[str, object]:
        if score is None:
            if not self._tasks:
                raise ValueError("no score: call finish(score), or log_task(task_id, score) at least once")
            if len({self._directions.get(name) for name in self._tasks}) > 1:
                raise ValueError("the tasks' directions differ, so their mean says nothing: call finish(score)")
            score = sum(self._tasks.values()) / len(self._tasks)
        result: dict[str, object] = {
            "score": finite_number(score, "the score"),
            "tasks": dict(self._tasks),
            "started_at": self._started_at,
            "ended_at": _now(),
        }
        if self._directions:
            result["tasks_meta"] = {name: {"direction": direction} for name, direction in self._directions.items()}
        return result


def _path(variable: str) -> str | None:
    return os.environ.get(variable) or None


def _read_params(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    import json

    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow to import
        params = json.load(file)
    if not isinstance(params, dict):
        raise ValueError(f"{path} must hold a JSON object of parameters")
    return params


def _trace_name(task_id: str) -> str:
    from urllib.parse import quote

    # Percent-encoding keeps ids distinct that differ only in odd characters; a file name has at most 255 bytes.
    safe = quote(task_id, safe="")
    if len(safe) > 200:
        import hashlib

        safe = safe[:160] + "~" + hashlib.sha256(task_id.encode()).hexdigest()[:32]
    return f"task_{safe}.json"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
