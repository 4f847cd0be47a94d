"""The table of result formats, the values of `benchmark.result`. A new format is one file and one line."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from loopty.kit.by_name import by_name

if TYPE_CHECKING:
    from loopty.evaluators.formats.result_format import ResultFormat

FORMATS = {
    "file": "loopty.evaluators.formats.files:RESULT_FILE",
    "stdout": "loopty.evaluators.formats.printed:PRINTED_RESULT",
    "pytest-benchmark": "loopty.evaluators.formats.files:PYTEST_BENCHMARK",
    "hyperfine": "loopty.evaluators.formats.files:HYPERFINE",
    "google-benchmark": "loopty.evaluators.formats.files:GOOGLE_BENCHMARK",
    "criterion": "loopty.evaluators.formats.files:CRITERION",
    "go-bench": "loopty.evaluators.formats.tool_rows:GO_BENCH",
    "libtest": "loopty.evaluators.formats.tool_rows:LIBTEST",
    "catch2": "loopty.evaluators.formats.tool_rows:CATCH2",
    "benchmark-js": "loopty.evaluators.formats.tool_rows:BENCHMARK_JS",
    "tinybench": "loopty.evaluators.formats.tool_rows:TINYBENCH",
    "mitata": "loopty.evaluators.formats.tool_rows:MITATA",
    "vitest": "loopty.evaluators.formats.files:VITEST",
    "jmh": "loopty.evaluators.formats.tool_rows:JMH",
    "asv": "loopty.evaluators.formats.tool_rows:ASV",
    "timeit": "loopty.evaluators.formats.tool_rows:TIMEIT",
    "units": "loopty.evaluators.formats.measured_lines:UNITS",
    "perf-stat": "loopty.evaluators.formats.files:PERF_STAT",
    "pyperf": "loopty.evaluators.formats.printed:PYPERF",
}
"""Where each format is, by its name."""


@functools.cache
def load_format(name: str) -> ResultFormat:
    loaded: ResultFormat = by_name(FORMATS[name])
    return loaded
