"""The outputs of benchmark tools, as the tools themselves wrote them."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from loopty.domain.objective import SCORE, Direction
from loopty.evaluators.result import ParsedResult, TrialOutput, result_of_rows
from loopty.evaluators.result_formats import FORMATS, load_format
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.untrusted_files import Unreadable

from ..needs import needs

RECORDED = Path(__file__).parent / "tool_outputs"


class Output:
    """The output of a trial, to be written by a test."""

    def __init__(self, root: Path) -> None:
        self.outbox, self.logs = root / "out", root / "logs"
        self.outbox.mkdir()
        self.logs.mkdir()

    def write(self, name: str, content: str | bytes) -> None:
        path = self.outbox / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def write_recorded(self, name: str, recorded: str) -> None:
        self.write(name, (RECORDED / recorded).read_bytes())

    def print(self, text: str) -> None:
        (self.logs / "stdout.log").write_text(text)

    def parsed(self, result: str, score_key: str = "") -> ParsedResult | None:
        return load_format(result).read(TrialOutput(SafeFolder(self.outbox), SafeFolder(self.logs)), score_key)

    def read(self, result: str, score_key: str = "") -> ParsedResult:
        parsed = self.parsed(result, score_key)
        assert parsed is not None
        return parsed

    def reason(self, result: str, score_key: str = "") -> str:
        with pytest.raises(Unreadable) as caught:
            self.read(result, score_key)
        assert len(str(caught.value)) < 300
        return str(caught.value)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path.resolve())


@pytest.mark.parametrize("result", FORMATS)
def test_a_trial_that_wrote_nothing_has_no_result_and_the_format_says_what_to_do(
    output: Output, result: str
) -> None:
    assert output.parsed(result) is None
    assert len(load_format(result).missing) < 250


def test_pytest_benchmark(output: Output) -> None:
    output.write_recorded("pytest-benchmark/Linux-CPython-3.11-64bit/0001_loopty.json", "pytest-benchmark.json")
    parsed = output.read("pytest-benchmark")
    names = ("test_sort[10]", "test_sort[1000]")
    assert list(parsed.metrics) == [
        SCORE,
        *(f"{name}.{figure}" for name in names for figure in ("median", "mean", "min")),
    ]
    medians = [parsed.metrics[f"{name}.median"] for name in names]
    assert parsed.metrics[SCORE] == pytest.approx((medians[0] * medians[1]) ** 0.5)
    assert set(parsed.directions.values()) == {Direction.MIN}
    assert parsed.directions[SCORE] is Direction.MIN


def test_pytest_benchmark_is_told_where_to_save_beside_the_options_of_the_task() -> None:
    environment = load_format("pytest-benchmark").environment({"PYTEST_ADDOPTS": "-x"}, "/out/result.json", "/out")
    assert environment["PYTEST_ADDOPTS"].startswith("-x --benchmark-storage=file:///out/")


def test_two_tests_of_one_name_are_told_apart_by_their_files(output: Output) -> None:
    stats = {"median": 1.0, "mean": 1.0, "min": 1.0}
    benchmarks = [{"name": "test_it", "fullname": f"{file}.py::test_it", "stats": stats} for file in "ab"]
    output.write("pytest-benchmark/x/1.json", json.dumps({"benchmarks": benchmarks}))
    assert {"a.py::test_it.median", "b.py::test_it.median"} < set(output.read("pytest-benchmark").metrics)


def test_hyperfine(output: Output) -> None:
    output.write_recorded("result.json", "hyperfine.json")
    parsed = output.read("hyperfine")
    assert parsed.metrics["sleep 0.01.min"] == pytest.approx(0.010771218)
    assert output.read("hyperfine", "sleep 0.01.mean").metrics[SCORE] == pytest.approx(0.011461552)


def test_google_benchmark_with_repetitions_and_rates(output: Output) -> None:
    output.write_recorded("result.json", "google-benchmark.json")
    parsed = output.read("google-benchmark")
    assert {"BM_S/8.median", "BM_S/8.cpu", "BM_S/8.items_per_second", "BM_M.min"} < set(parsed.metrics)
    assert not any("aggregate" in name or "_mean" in name for name in parsed.metrics)
    assert parsed.metrics["BM_M.median"] < 1e-3
    rate = output.read("google-benchmark", "BM_S/8.items_per_second")
    assert rate.metrics[SCORE] > 1e6
    assert rate.directions[SCORE] is Direction.MAX


def test_a_failed_google_benchmark_is_no_result(output: Output) -> None:
    failed = {"name": "BM", "run_type": "iteration", "error_occurred": True, "error_message": "no file"}
    output.write("result.json", json.dumps({"benchmarks": [failed]}))
    assert "no file" in output.reason("google-benchmark")


def test_criterion(output: Output) -> None:
    for path in ("sizes/10/new", "sizes/10/base", "sum/new"):
        output.write_recorded(f"criterion/{path}/estimates.json", "criterion-estimates.json")
    parsed = output.read("criterion")
    assert parsed.metrics[SCORE] == pytest.approx(12.338998e-9)
    assert {name.rpartition(".")[0] for name in parsed.metrics} == {"", "sizes/10", "sum"}


def test_go_bench(output: Output) -> None:
    output.print((RECORDED / "go-bench.txt").read_text())
    parsed = output.read("go-bench")
    assert parsed.metrics["BenchmarkSum/10.median"] == pytest.approx(29.88e-9)
    assert parsed.metrics["BenchmarkSum/10.min"] == pytest.approx(20.22e-9)
    assert parsed.metrics["BenchmarkFill.median"] == pytest.approx(3966.5e-9)


def test_benchmark_js(output: Output) -> None:
    output.print(
        "-> pad 9\nCurrent x 2,000 ops/sec ±8.90% (50 runs sampled)\nO(n) x 0.50 ops/sec ±1.2% (5 runs sampled)\n"
        "Fastest is Current\n-> pad 10\nCurrent x 2,000 ops/sec ±8.90% (50 runs sampled)\n"
    )
    parsed = output.read("benchmark-js", "Current.ops_per_second")
    assert parsed.metrics[SCORE] == pytest.approx(2000)
    assert parsed.directions[SCORE] is Direction.MAX
    assert parsed.metrics["O(n).mean"] == pytest.approx(2.0)


def test_pyperf(output: Output) -> None:
    output.print(
        ".....\nWARNING: the benchmark result may be unstable\n* the standard deviation (64.4 ns) is 35% of the "
        "mean (186 ns)\n\n(impl = c) istr->istr: Mean +- std dev: 186 ns +- 64 ns\n"
        ".....\n(impl = python) istr->istr: Mean +- std dev: 1.25 us +- 0.10 us\n"
    )
    parsed = output.read("pyperf")
    assert parsed.metrics["(impl = c) istr->istr.mean"] == pytest.approx(186e-9)
    assert parsed.metrics["(impl = python) istr->istr.mean"] == pytest.approx(1.25e-6)
    assert parsed.directions[SCORE] is Direction.MIN


@pytest.mark.parametrize("recorded", ["perf-stat.csv", "perf-stat.json", "perf-stat-repeated.csv"])
def test_perf_stat_counts_what_this_machine_counts(output: Output, recorded: str) -> None:
    output.write_recorded("result.json", recorded)
    parsed = output.read("perf-stat")
    assert list(parsed.metrics) == [SCORE, "task-clock", "context-switches", "cpu-migrations", "page-faults"]
    assert 0.0002 < parsed.metrics["task-clock"] == parsed.metrics[SCORE] < 0.0005
    assert 45 < output.read("perf-stat", "page-faults").metrics[SCORE] < 55


@pytest.mark.parametrize(
    ("printed", "metrics"),
    [
        ('{"score": 2}', {SCORE: 2.0}),
        ('loading\n{\n  "score": 2,\n  "ms": 5\n}\n', {SCORE: 2.0, "ms": 5.0}),
        ("step 1 of 3\n0.25\n", {SCORE: 0.25}),
        ("accuracy: 0.5\nscore: 1.5e-3\ndone\n", {"accuracy": 0.5, SCORE: 1.5e-3}),
        ("loss = -3\nFinal time: 12.5 s\n", {SCORE: 12.5, "loss": -3.0, "Final time": 12.5}),
    ],
)
def test_a_printed_score(output: Output, printed: str, metrics: dict[str, float]) -> None:
    output.print(printed)
    assert output.read("stdout").metrics == metrics


def test_a_printed_metric_can_be_the_score(output: Output) -> None:
    output.print("loss: 0.5\nepoch 3 of 7\n")
    assert output.read("stdout", "loss").metrics[SCORE] == 0.5
    assert 'score_key = "loss"' in output.reason("stdout")


@pytest.mark.parametrize("printed", ['{"score": 1}\n{"score": 2}\n', 'x\n{"score": 1}\ny\n{"score": 2}\n'])
def test_two_printed_results_are_none(output: Output, printed: str) -> None:
    output.print(printed)
    assert "JSON" in output.reason("stdout")


@pytest.mark.parametrize(
    ("document", "score_key", "score"),
    [
        ({"combined_score": 0.7, "public": {"x": 1}}, "", 0.7),
        ({"metrics": {"combined_score": 0.6}}, "", 0.6),
        ({"metrics": {"score": 0.5, "accuracy": 0.4}}, "metrics.accuracy", 0.4),
        ({"score": 1, "private": {"deep": {"er": 3}}}, "private.deep.er", 3.0),
    ],
)
def test_result_objects_of_other_systems(output: Output, document: Any, score_key: str, score: float) -> None:
    output.write("result.json", json.dumps(document))
    assert output.read("file", score_key).metrics[SCORE] == score


def test_a_result_without_a_score_names_the_numbers_that_it_has(output: Output) -> None:
    output.write("result.json", json.dumps({"metrics": {"accuracy": 0.4, "name": "x", "ok": True}, "seconds": 2}))
    reason = output.reason("file")
    assert reason.startswith("the result file has no score")
    assert 'score_key = "metrics.accuracy"' in reason
    assert "seconds" in reason
    assert "ok" not in reason.split()
    assert "has no metrics.f1:" in output.reason("file", "metrics.f1")


@pytest.mark.parametrize("result", ["hyperfine", "google-benchmark", "perf-stat"])
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"results": [3], "benchmarks": [3]}', b"\xff\xfe"])
def test_garbage_in_the_result_file_is_no_result(output: Output, result: str, raw: bytes) -> None:
    output.write("result.json", raw)
    with contextlib.suppress(Unreadable):
        assert output.parsed(result) is None


def test_links_and_hard_links_in_a_folder_of_output_are_not_followed(output: Output, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_bytes((RECORDED / "pytest-benchmark.json").read_bytes())
    folder = output.outbox / "pytest-benchmark"
    folder.mkdir()
    (folder / "link.json").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    assert output.parsed("pytest-benchmark") is None
    (folder / "hard.json").hardlink_to(secret)
    assert "hard link" in output.reason("pytest-benchmark")


@needs("hyperfine")
def test_the_installed_hyperfine(output: Output) -> None:
    target = output.outbox / "result.json"
    subprocess.run(
        ["hyperfine", "-N", "-r", "2", "--export-json", target, "true"], check=True, capture_output=True
    )
    assert output.read("hyperfine").metrics["true.median"] > 0


@pytest.mark.parametrize(
    ("result", "recorded", "names"),
    [
        ("mitata", "mitata.txt", ["fib", "parse small", "parse 8", "parse 64", "mine", "other-lib"]),
        ("tinybench", "tinybench.txt", ["faster task", "slower, task"]),
        ("vitest", "vitest.txt", ["normal", "reverse"]),
        ("catch2", "catch2.txt", ["fib 10", "that wraps over lines"]),
        ("google-benchmark", "google-benchmark.txt", ["BM_Sort/8", "BM_Sort/512"]),
        ("hyperfine", "hyperfine.txt", ["sleep 0.01", "sleep 0.02"]),
    ],
)
def test_what_a_tool_prints(output: Output, result: str, recorded: str, names: list[str]) -> None:
    output.print((RECORDED / recorded).read_text())
    parsed = output.read(result)
    assert list(parsed.rows) == names
    assert parsed.directions[SCORE] is Direction.MIN
    assert all(1e-10 < seconds < 0.1 for seconds in parsed.rows.values())


def test_vitest_writes_medians_to_a_file(output: Output) -> None:
    output.write_recorded("result.json", "vitest.json")
    assert output.read("vitest").metrics["normal.median"] == pytest.approx(0.592e-6)


@pytest.mark.parametrize(
    ("result", "printed", "rows"),
    [
        ("libtest", "test sort::big ... bench:   1,234.5 ns/iter (+/- 12)\n", {"sort::big": 1.2345e-6}),
        (
            "jmh",
            "Sort.quick  avgt  5  12.5 ±  0.1  ns/op\nSort.slow thrpt 5 2.0 ± 0.1 ops/ms\n",
            {"Sort.quick": 12.5e-9, "Sort.slow": 0.5e-3},
        ),
        ("jmh", "Sort.quick    1000  thrpt       4.000          ops/s\n", {"Sort.quick    1000": 0.25}),
        ("asv", "[25.00%] ··· bench.Suite.time_sort      12.3±0.1ms\n", {"bench.Suite.time_sort": 12.3e-3}),
        ("timeit", "1000 loops, best of 5: 12.5 usec per loop\n", {"loop": 12.5e-6}),
        (
            "tinybench",
            "|   ns/op |  op/s | err% | total | benchmark\n|--:|--:|--:|--:|:--\n"
            "|  6.50 | 152.5 | 0.1% |  0.00 | `some ops`\n",
            {"some ops": 6.5e-9},
        ),
    ],
)
def test_rows_of_other_tools(output: Output, result: str, printed: str, rows: dict[str, float]) -> None:
    output.print(printed)
    assert output.read(result).rows == pytest.approx(rows)


def test_equal_names_of_two_packages_of_go_are_told_apart(output: Output) -> None:
    row = "BenchmarkRead-8   \t 100\t 20 ns/op\n"
    output.print(f"pkg: example.com/a\n{row}{row}pkg: example.com/b\n{row}")
    assert list(output.read("go-bench").rows) == ["example.com/a: BenchmarkRead", "example.com/b: BenchmarkRead"]


@pytest.mark.parametrize(
    ("printed", "rows", "direction"),
    [
        (
            "parse n=10: 2 ms\nparse n=20: 8ms\nTotal elapsed: 1 s\n",
            {"parse n=10": 2e-3, "parse n=20": 8e-3},
            "min",
        ),
        ("sorted 1000 items in 0.5s\n", {"sorted # items in": 0.5}, "min"),
        ("read 5,000 rows in 5.00 s (1000 rows/s)\n", {"read # rows in": 1000.0}, "max"),
        ("encode  2,000 ops/sec\ndecode  500 ops/s (took 5.0 s)\n", {"encode": 2000.0, "decode": 500.0}, "max"),
        ("crc ran at 2.5 [GB/s] when checksuming 100.0 [MB] 10 times\n", {"crc ran at": 2.5e9}, "max"),
        ("copy: 2.5 GB/s\n", {"copy": 2.5e9}, "max"),
        ("add: 3 µs/op\nsub: 4 us per call\n", {"add": 3e-6, "sub": 4e-6}, "min"),
    ],
)
def test_lines_with_units(output: Output, printed: str, rows: dict[str, float], direction: str) -> None:
    output.print(printed)
    parsed = output.read("units")
    assert parsed.rows == pytest.approx(rows)
    assert str(parsed.directions[SCORE]) == direction


def test_the_end_of_a_test_run_is_no_measurement(output: Output) -> None:
    output.print("12 passed in 0.52s\nRan 3 tests in 0.1s\n4 m of rope\n")
    assert output.parsed("units") is None


def test_rows_choose_among_benchmarks_by_name(output: Output) -> None:
    output.print("own: sort x 4 ops/sec\nlodash: sort x 100 ops/sec\nown: [1] x 1 ops/sec\n")
    parsed = output.read("benchmark-js")
    for patterns in (["own*"], ["!*lodash*"], ["own: sort", "own: [1]"]):
        kept = result_of_rows(parsed, patterns)
        assert list(kept.rows) == ["own: sort", "own: [1]"]
        assert kept.metrics[SCORE] == pytest.approx(0.5)
        assert "lodash: sort.mean" not in kept.metrics
    with pytest.raises(Unreadable, match="has no benchmark that"):
        result_of_rows(parsed, ["ramda"])
    with pytest.raises(Unreadable, match="has no rows"):
        result_of_rows(ParsedResult({SCORE: 1.0}), ["x"])
