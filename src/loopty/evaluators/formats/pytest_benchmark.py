"""Reads what pytest-benchmark saves. Its options go through PYTEST_ADDOPTS, so the command stays as it is.

It saves into a storage folder, because the file of `--benchmark-json` holds every single round: megabytes for a
fast function.
"""

from __future__ import annotations

from collections import Counter

from loopty.evaluators.formats.result_format import Environment, ResultFormat
from loopty.evaluators.formats.timings import Timings, seconds_of
from loopty.evaluators.result import ParsedResult
from loopty.evaluators.trial_output import TrialOutput
from loopty.kit.untrusted_files import Unreadable, json_object

_FOLDER = "pytest-benchmark"


def _environment(environment: Environment, _result: str, outbox: str) -> Environment:
    options = f"--benchmark-storage=file://{outbox}/{_FOLDER} --benchmark-save=loopty"
    before = environment.get("PYTEST_ADDOPTS", "")
    return {**environment, "PYTEST_ADDOPTS": f"{before} {options}".strip()}


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    timings = Timings()
    benchmarks = [
        benchmark
        for _, raw in output.files_below(_FOLDER, ".json")
        for benchmark in json_object(raw).get("benchmarks") or []
    ]
    if not all(
        isinstance(benchmark, dict) and isinstance(benchmark.get("stats"), dict) for benchmark in benchmarks
    ):
        raise Unreadable("has a benchmark without stats")
    count = Counter(str(benchmark.get("name")) for benchmark in benchmarks)
    for benchmark in benchmarks:
        # Two files may have a test of the same name; the full name begins with the file.
        name = benchmark.get("name") if count[str(benchmark.get("name"))] == 1 else benchmark.get("fullname")
        timings.add(name, seconds_of(benchmark["stats"], ("median", "mean", "min")))
    return timings.result(score_key)


FORMAT = ResultFormat(
    _read,
    "pytest-benchmark saved nothing: is it installed for the command's python, and does a test that ran use the "
    "fixture `benchmark`?",
    _environment,
)
