"""Formats of what benchmark tools print: one table says what a row of each tool looks like.

A row names a benchmark and has one number: a time, or how often it ran in a second. A new tool is one entry here
and one line in the table of formats.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from loopty.evaluators.formats.box_tables import box_rows
from loopty.evaluators.formats.result_format import ResultFormat, Timings
from loopty.evaluators.formats.units import operation_seconds
from loopty.evaluators.result import ParsedResult, TrialOutput
from loopty.kit.records import Record

_NUMBER = r"[0-9][0-9,]{0,30}(?:\.[0-9]{1,12})?"
_TIME = r"ps|ns|us|µs|μs|ms|s|sec|min|m"
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class PrintedRow(Record):
    """One benchmark as a tool printed it."""

    name: str
    seconds: float
    """Of one operation."""
    is_rate: bool = False
    """Whether the tool printed operations per second."""
    group: str = ""
    """The headline above it."""


class PrintedTool(Record):
    """What a tool prints."""

    row: re.Pattern[str] | None
    """One benchmark, with the groups `name` and `value`, and `unit` if `unit` below is empty; None for a tool
    that draws a table."""
    example: str
    """A row, for messages."""
    unit: str = ""
    """What the numbers count, if the rows do not say it."""
    headline: re.Pattern[str] | None = None
    """What stands above a group of rows; its first group names it."""
    repeats: bool = False
    """Whether equal names are repetitions of one benchmark, so that their median counts."""
    figure: str = "mean"
    """What the number is."""

    def rows(self, text: str) -> list[PrintedRow]:
        """Read the rows of this text."""
        text = _COLOUR.sub("", text)
        return list(box_rows_of(text) if self.row is None else self._matches(self.row, text))

    def _matches(self, pattern: re.Pattern[str], text: str) -> Iterator[PrintedRow]:
        headlines = [*self.headline.finditer(text)] if self.headline else []
        place, group = 0, ""
        for found in pattern.finditer(text):
            while place < len(headlines) and headlines[place].start() < found.start():
                group, place = headlines[place][1].strip(), place + 1
            unit = self.unit or found["unit"]
            if (seconds := operation_seconds(found["value"], unit)) is not None:
                yield PrintedRow(found["name"].strip(), seconds.seconds, seconds.is_rate, group)


def box_rows_of(text: str) -> Iterator[PrintedRow]:
    """Read the tables that `console.table` draws, and those of Markdown."""
    for name, value, unit in box_rows(text):
        if (seconds := operation_seconds(value, unit)) is not None:
            yield PrintedRow(name, seconds.seconds, seconds.is_rate)


PRINTED_TOOLS = {
    "benchmark-js": PrintedTool(
        re.compile(rf"^[ \t]*(?P<name>\S[^\n]{{0,200}}?) x (?P<value>{_NUMBER}) ops/sec", re.MULTILINE),
        "NAME x 1,000 ops/sec",
        "ops/s",
    ),
    "mitata": PrintedTool(
        re.compile(
            rf"^(?!test )(?P<name>\S[^\n]{{0,200}}?) {{2,}}(?P<value>{_NUMBER}) (?P<unit>{_TIME})/iter\b",
            re.MULTILINE,
        ),
        "NAME   12.3 µs/iter",
        headline=re.compile(r"^• ([^\n]{1,200})$", re.MULTILINE),
    ),
    "tinybench": PrintedTool(None, "│ 'NAME' │ '1,000' │ under a heading as ops/s or (ns)", figure="median"),
    "go-bench": PrintedTool(
        re.compile(
            r"^(?P<name>Benchmark\S*?)(?:-\d+)?\s+\d+\s+(?P<value>[0-9]{1,20}(?:\.[0-9]{1,10})?) (?P<unit>ns/op)",
            re.MULTILINE,
        ),
        "BenchmarkName-8  1000  1234 ns/op",
        headline=re.compile(r"^pkg: (\S+)$", re.MULTILINE),
        repeats=True,
        figure="median",
    ),
    "libtest": PrintedTool(
        re.compile(
            rf"^test (?P<name>\S[^\n]{{0,200}}?) \.\.\. bench: +(?P<value>{_NUMBER}) (?P<unit>ns/iter)\b",
            re.MULTILINE,
        ),
        "test NAME ... bench:  1,234 ns/iter (+/- 12)",
        headline=re.compile(r"^\s*Running (?:\S+ )?(\S+)(?: \(\S+\))?$", re.MULTILINE),
        figure="median",
    ),
    "catch2": PrintedTool(
        # The second line of a benchmark has its mean; the first has samples, iterations and an estimate.
        re.compile(
            rf"^(?P<name>\S[^\n]{{0,200}}?) +\d+ +\d+ +[0-9.]+ (?:{_TIME}) *\n"
            rf" +(?P<value>[0-9.]{{1,30}}) (?P<unit>{_TIME}) ",
            re.MULTILINE,
        ),
        "NAME  100  1  3.2 ms, and the mean below it",
    ),
    "jmh": PrintedTool(
        re.compile(
            rf"^(?P<name>[A-Za-z_][\w.$:·]*(?: +\S+){{0,8}}?) +(?:thrpt|avgt|sample|ss) +(?:\d+ +)?"
            rf"(?:≈ *)?(?P<value>{_NUMBER}) +(?:± *[0-9.,]+ +)?(?P<unit>ops/\w+|\w+/op)$",
            re.MULTILINE,
        ),
        "Sort.quick  avgt  5  12.3 ± 0.1  ns/op",
    ),
    "asv": PrintedTool(
        re.compile(
            rf"^\[ *[0-9.]+%\] ·+ (?P<name>\S*time_\S*) +(?P<value>{_NUMBER})(?:±[0-9.]+)?(?P<unit>{_TIME})$",
            re.MULTILINE,
        ),
        "[50.00%] ··· bench.time_sort  12.3±0.1ms",
        figure="median",
    ),
    "timeit": PrintedTool(
        re.compile(
            r"^(?P<name>)\d+ loops?, best of \d+: (?P<value>[0-9.]{1,20}) (?P<unit>nsec|usec|msec|sec) per loop$",
            re.MULTILINE,
        ),
        "1000 loops, best of 5: 12.3 usec per loop",
        figure="min",
    ),
}
"""By the value of `benchmark.result`."""


def timings_of(rows: Sequence[PrintedRow], tool: PrintedTool) -> Timings:
    """Collect rows as timings: equal names in two groups are told apart by them, others count together."""
    groups_of = Counter(name for name, _ in {(row.name, row.group) for row in rows})
    named: dict[str, list[PrintedRow]] = {}
    for row in rows:
        is_ambiguous = groups_of[row.name] > 1 and row.group
        named.setdefault(f"{row.group}: {row.name}" if is_ambiguous else row.name or "loop", []).append(row)
    timings = Timings()
    for name, ones in named.items():
        seconds = [row.seconds for row in ones]
        mean = statistics.fmean(seconds)
        if tool.repeats:
            timings.add(name, {"median": statistics.median(seconds), "mean": mean, "min": min(seconds)})
        else:
            rates = {"ops_per_second": 1 / mean} if mean > 0 and any(row.is_rate for row in ones) else {}
            timings.add(name, {tool.figure: mean}, rates)
    return timings


def printed_format(name: str) -> ResultFormat:
    """Make the format of a tool of the table."""
    tool = PRINTED_TOOLS[name]

    def read(output: TrialOutput, score_key: str) -> ParsedResult | None:
        rows = tool.rows(output.stdout().decode(errors="replace"))
        return timings_of(rows, tool).result(score_key)

    missing = f"stdout has no row of {name} (`{tool.example}`): does the command run a benchmark, and print it?"
    return ResultFormat(read, missing, on_stdout=True)


BENCHMARK_JS, MITATA, TINYBENCH, GO_BENCH, LIBTEST, CATCH2, JMH, ASV, TIMEIT = map(
    printed_format,
    ("benchmark-js", "mitata", "tinybench", "go-bench", "libtest", "catch2", "jmh", "asv", "timeit"),
)
