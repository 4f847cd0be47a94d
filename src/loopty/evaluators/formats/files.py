"""Formats of files that tools write: loopty's own, criterion, Google Benchmark, hyperfine, `perf stat`,
pytest-benchmark, vitest. What the tool wrote to no file is read from what it printed.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

from loopty.domain.objective import SCORE, Direction
from loopty.evaluators.formats.result_format import (
    MAX_BENCHMARKS,
    Environment,
    ResultFormat,
    Timings,
    seconds_of,
)
from loopty.evaluators.formats.tool_rows import PrintedTool, timings_of
from loopty.evaluators.formats.units import SECONDS
from loopty.evaluators.result import RESULT, ParsedResult, TrialOutput, choose_score, finite_number, parse_result
from loopty.kit.untrusted_files import Unreadable, is_printable_name, json_object


def _read_result_file(output: TrialOutput, score_key: str) -> ParsedResult | None:
    try:
        raw = output.file(RESULT)
        return None if raw is None else parse_result(raw, score_key)
    except Unreadable as error:
        raise Unreadable(f"the result file {error}") from None


RESULT_FILE = ResultFormat(
    _read_result_file,
    "the result file was not written, and neither was the metrics CSV ($EVO_RESULT_PATH, $LOOPTY_METRICS_CSV)",
)


_CRITERION_FOLDER = "criterion"
_CRITERION_END = "/new/estimates.json"
_CRITERION_FIGURES = ("median", "mean", "slope")


def _criterion_environment(environment: Environment, _result: str, outbox: str) -> Environment:
    return {**environment, "CRITERION_HOME": f"{outbox}/{_CRITERION_FOLDER}"}


def _read_criterion(output: TrialOutput, score_key: str) -> ParsedResult | None:
    timings = Timings()
    for path, raw in output.files_below(_CRITERION_FOLDER, _CRITERION_END):
        estimates = json_object(raw)
        figures = {}
        for figure in _CRITERION_FIGURES:
            estimate = estimates.get(figure)
            if estimate is None:
                continue  # benchmarks with few iterations have no slope
            if not isinstance(estimate, dict):
                raise Unreadable(f"has a {figure} that is not an object")
            figures[figure] = (
                finite_number(estimate.get("point_estimate"), f"{figure}.point_estimate") * SECONDS["ns"]
            )
        if "median" not in figures:
            raise Unreadable("has a benchmark without a median")
        timings.add(path.removesuffix(_CRITERION_END), figures)
    return timings.result(score_key)


CRITERION = ResultFormat(
    _read_criterion,
    "criterion wrote no estimates below $CRITERION_HOME: does `cargo bench` run a benchmark of criterion 0.3 or "
    "later?",
    _criterion_environment,
)


_RATES = ("items_per_second", "bytes_per_second")


def _google_environment(environment: Environment, result: str, _outbox: str) -> Environment:
    return {**environment, "BENCHMARK_OUT": result, "BENCHMARK_OUT_FORMAT": "json"}


_GOOGLE_ROWS = PrintedTool(
    re.compile(
        r"^(?P<name>\S+) +(?P<value>[0-9.]{1,20}(?:e[+-]?\d+)?) (?P<unit>ns|us|ms|s)"
        r" +[0-9.e+-]+ (?:ns|us|ms|s) +\d+\b",
        re.MULTILINE,
    ),
    "BM_Sort/8  123 ns  122 ns  5000",
    repeats=True,
    figure="median",
)
_HYPERFINE_ROWS = PrintedTool(
    re.compile(
        r"^Benchmark(?: #?\d+)?: (?P<name>[^\n]{1,200})\n"
        r"\s+Time \(mean ± σ\): +(?P<value>[0-9.]{1,20}) (?P<unit>ms|s|µs)",
        re.MULTILINE,
    ),
    "Time (mean ± σ):  12.3 ms",
)
_VITEST_ROWS = PrintedTool(
    re.compile(
        r"^[ \t]+[·✓→-] (?P<name>\S[^\n]{0,200}?) {2,}"
        r"(?P<value>[0-9][0-9,]{0,30}(?:\.[0-9]{1,12})?)(?= +[0-9.,]+ )",
        re.MULTILINE,
    ),
    "· NAME  1,000.00  0.0003 …",
    "ops/s",
    re.compile(r"^[ \t]+✓ ([^\n]{1,300}?)(?: +\d+ms)?$", re.MULTILINE),
)


def _printed_rows(output: TrialOutput, tool: PrintedTool, score_key: str) -> ParsedResult | None:
    return timings_of(tool.rows(output.stdout().decode(errors="replace")), tool).result(score_key)


def _printed_object(output: TrialOutput) -> bytes | None:
    """Find the JSON object that a tool printed after what else was printed; None if there is none."""
    found = re.search(rb"^\{\s*$", output.stdout(), re.MULTILINE)
    return output.stdout()[found.start() :] if found else None


def _read_google_benchmark(output: TrialOutput, score_key: str) -> ParsedResult | None:
    raw = output.file(RESULT) or _printed_object(output)
    if raw is None:
        return _printed_rows(output, _GOOGLE_ROWS, score_key)
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


GOOGLE_BENCHMARK = ResultFormat(
    _read_google_benchmark,
    "the program wrote no output of Google Benchmark (which reads BENCHMARK_OUT from version 1.6 on): does "
    "the command run a benchmark program, and does a benchmark match its filter?",
    _google_environment,
)


def _read_hyperfine(output: TrialOutput, score_key: str) -> ParsedResult | None:
    raw = output.file(RESULT)
    if raw is None:
        return _printed_rows(output, _HYPERFINE_ROWS, score_key)
    timings = Timings()
    for command in json_object(raw).get("results") or []:
        if not isinstance(command, dict):
            raise Unreadable("has a command that is not an object")
        timings.add(command.get("command"), seconds_of(command, ("median", "mean", "min", "user", "system")))
    return timings.result(score_key)


HYPERFINE = ResultFormat(
    _read_hyperfine,
    "hyperfine exported no command: add `--export-json $EVO_RESULT_PATH` to its options in benchmark.command",
)


_SEPARATORS = (",", ";", "\t")


def _read_perf_stat(output: TrialOutput, score_key: str) -> ParsedResult | None:
    raw = output.file(RESULT)
    if raw is None:
        return None
    metrics: dict[str, float] = {}
    for event, value, unit in _counts(raw.decode(errors="replace")):
        if not is_printable_name(event) or len(metrics) == MAX_BENCHMARKS:
            raise Unreadable("has events with names that are not short, or too many of them")
        try:
            metrics[event] = finite_number(float(value), event) * SECONDS.get(unit, 1.0)
        except ValueError:
            continue  # <not supported>, <not counted>
    if not metrics:
        return None
    directions = dict.fromkeys((SCORE, *metrics), Direction.MIN)
    return choose_score(ParsedResult({SCORE: next(iter(metrics.values())), **metrics}, directions), score_key)


def _counts(text: str) -> Iterator[tuple[str, str, str]]:
    """Event, count and unit, line by line."""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        if line.startswith("{"):
            fields = json_object(line.encode())
            yield str(fields.get("event", "")), str(fields.get("counter-value", "")), str(fields.get("unit", ""))
            continue
        separator = next((mark for mark in _SEPARATORS if mark in line), None)
        if separator is None:
            raise Unreadable("is neither CSV nor JSON: give `perf stat` the option -x, or -j")
        value, unit, event, *_ = [*line.split(separator), "", "", ""]
        yield event, value, unit


PERF_STAT = ResultFormat(
    _read_perf_stat,
    "perf counted no event: add `stat -x, -o $EVO_RESULT_PATH` to perf's options in benchmark.command",
)


# Its options go through PYTEST_ADDOPTS, so the command stays as it is.
#
# It saves into a storage folder, because the file of `--benchmark-json` holds every single round: megabytes for a
# fast function.


_PYTEST_FOLDER = "pytest-benchmark"


def _pytest_environment(environment: Environment, _result: str, outbox: str) -> Environment:
    options = f"--benchmark-storage=file://{outbox}/{_PYTEST_FOLDER} --benchmark-save=loopty"
    before = environment.get("PYTEST_ADDOPTS", "")
    return {**environment, "PYTEST_ADDOPTS": f"{before} {options}".strip()}


def _read_pytest_benchmark(output: TrialOutput, score_key: str) -> ParsedResult | None:
    timings = Timings()
    benchmarks = [
        benchmark
        for _, raw in output.files_below(_PYTEST_FOLDER, ".json")
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


PYTEST_BENCHMARK = ResultFormat(
    _read_pytest_benchmark,
    "pytest-benchmark saved nothing: is it installed for the command's python, and does a test that ran use the "
    "fixture `benchmark`?",
    _pytest_environment,
)


def _read_vitest(output: TrialOutput, score_key: str) -> ParsedResult | None:
    raw = output.file(RESULT)
    if raw is None:
        return _printed_rows(output, _VITEST_ROWS, score_key)
    rows = [
        (group.get("fullName"), row)
        for file in json_object(raw).get("files") or []
        for group in file.get("groups") or []
        for row in group.get("benchmarks") or []
        if isinstance(row, dict) and row.get("sampleCount")
    ]
    count = Counter(str(row.get("name")) for _, row in rows)
    timings = Timings()
    for group, row in rows:
        name = row.get("name") if count[str(row.get("name"))] == 1 else f"{group} > {row.get('name')}"
        timings.add(name, seconds_of(row, ("median", "mean", "min"), unit=SECONDS["ms"]))
    return timings.result(score_key)


VITEST = ResultFormat(
    _read_vitest,
    "vitest measured nothing: run `vitest bench --run --outputJson $EVO_RESULT_PATH`, and name a file "
    "`*.bench.js` or `*.bench.ts`",
)
