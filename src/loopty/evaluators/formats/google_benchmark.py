"""Reads the JSON of Google Benchmark, which takes its options from variables, so the command stays as it is."""

from __future__ import annotations

import statistics
from typing import Any

from loopty.evaluators.formats.result_format import Environment, ResultFormat
from loopty.evaluators.formats.timings import SECONDS, Timings
from loopty.evaluators.result import ParsedResult, finite_number
from loopty.evaluators.trial_output import RESULT, TrialOutput
from loopty.kit.untrusted_files import Unreadable, json_object

_RATES = ("items_per_second", "bytes_per_second")


def _environment(environment: Environment, result: str, _outbox: str) -> Environment:
    return {**environment, "BENCHMARK_OUT": result, "BENCHMARK_OUT_FORMAT": "json"}


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    raw = output.file(RESULT)
    if raw is None:
        return None
    repetitions: dict[str, list[dict[str, Any]]] = {}
    for entry in json_object(raw).get("benchmarks") or []:
        if not isinstance(entry, dict):
            raise Unreadable("has a benchmark that is not an object")
        if entry.get("run_type", "iteration") != "iteration":
            continue  # an aggregate of repetitions, which we compute ourselves
        name = str(entry.get("run_name", entry.get("name")))
        if entry.get("error_occurred"):
            raise Unreadable(f"has the error {str(entry.get('error_message'))[:80]!r} of {name[:60]!r}")
        repetitions.setdefault(name, []).append(entry)
    timings = Timings()
    for name, entries in repetitions.items():
        real, cpu = (
            [
                finite_number(entry.get(key), key) * SECONDS.get(str(entry.get("time_unit", "ns")), 1e-9)
                for entry in entries
            ]
            for key in ("real_time", "cpu_time")
        )
        rates = {
            rate: statistics.median(finite_number(entry[rate], rate) for entry in entries)
            for rate in _RATES
            if all(rate in entry for entry in entries)
        }
        figures = {"median": statistics.median(real), "mean": statistics.fmean(real), "min": min(real)}
        timings.add(name, {**figures, "cpu": statistics.median(cpu)}, rates)
    return timings.result(score_key)


FORMAT = ResultFormat(
    _read,
    "the program wrote no output of Google Benchmark (which reads BENCHMARK_OUT from version 1.6 on): does "
    "the command run a benchmark program, and does a benchmark match its filter?",
    _environment,
)
