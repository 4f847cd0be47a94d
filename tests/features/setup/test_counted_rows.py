"""Which benchmarks count: not those of other people's code; and what a program prints instead of its CPU time."""

import pytest

from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.causes.results import CPU_TIMER, command_with_timer, without_timer
from loopty.features.setup.counted_rows import with_own_rows
from loopty.features.setup.proven_task import with_better_score, with_direction
from loopty.features.setup.task_draft import TaskDraft


@pytest.mark.parametrize(
    ("package", "rivals", "rows", "expected"),
    [
        ("fast-uri", (), ["fast-uri: parse", "urijs: parse", "WHATWG URL: parse"], ("*fast-uri*",)),
        ("own", ("uri-js",), ["parse", "urijs: parse", "uri-js: join"], ("!*urijs*", "!*uri-js*")),
        ("ini", (), ["minify", "ini"], ("ini",)),
        (
            "fastjson",
            (),
            ["Parse/small/fastjson", "Parse/small/fastjson-get", "Parse/small/stdjson-map", "MarshalTo/small"],
            ("!*stdjson-map*",),
        ),
        ("own", ("mux",), ["BenchmarkOwn_Param", "BenchmarkGorillaMux_Param"], ("*BenchmarkOwn_Param*",)),
        ("own", ("lodash",), ["parse", "join"], ()),
        ("own", (), ["own: parse", "own: join"], ()),
        ("own", ("lodash",), ["lodash: parse", "lodash: join"], ()),
    ],
)
def test_rows_of_rivals_are_left_out(package, rivals, rows, expected):
    draft = TaskDraft("x", result="mitata", package=package, rivals=rivals)
    assert with_own_rows(draft, [f"{row}.mean" for row in rows]).rows == expected


@pytest.mark.parametrize("line", ["./bench", '"$(find . -name b | head -n 1)"'])
def test_a_program_that_prints_what_it_measured_is_not_timed_from_outside(line):
    draft = TaskDraft(command_with_timer(line, "make -s"), direction="min")
    outcome = Outcome(Ending.FINISHED, {"score": 5.0, "wall_seconds": 5.0})
    better = with_better_score(draft, outcome, output="encode: 200 ops/s\ndecode: 400 ops/s\n")
    assert (better.command, better.result) == (f"make -s && {line}", "units")
    assert with_better_score(draft, outcome, output="done\n").command.count(CPU_TIMER) == 1
    assert without_timer(draft.command) == better.command


@pytest.mark.parametrize(
    ("printed", "direction"),
    [
        ("0.42 s", "min"),
        ("took 3 µs", "min"),
        ("12 ms/op", "min"),
        ("40 MB/s", "max"),
        ("99 req/s", "max"),
        ("7 it/s", "max"),
    ],
)
def test_the_unit_of_the_score_says_which_values_are_better(printed, direction):
    draft = with_direction(TaskDraft("x", result="stdout"), Outcome(Ending.FINISHED, {"score": 1.0}), printed)
    assert (draft.direction, "direction" in draft.notes) == (direction, True)
