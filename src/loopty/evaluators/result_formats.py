"""The table of result formats, the values of `benchmark.result`. A new format is one file and one line."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopty.evaluators.formats.result_format import ResultFormat

FORMATS = {
    "file": "result_file",
    "stdout": "printed_result",
    "pytest-benchmark": "pytest_benchmark",
    "hyperfine": "hyperfine",
    "google-benchmark": "google_benchmark",
    "criterion": "criterion",
    "go-bench": "go_bench",
    "benchmark-js": "benchmark_js",
    "perf-stat": "perf_stat",
    "pyperf": "pyperf",
}
"""Modules of `evaluators/formats` by name."""


@functools.cache
def load_format(name: str) -> ResultFormat:
    loaded: ResultFormat = importlib.import_module(f"loopty.evaluators.formats.{FORMATS[name]}").FORMAT
    return loaded
