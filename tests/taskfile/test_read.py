"""The task file is strict: every fault is reported at once, with its line, its key and a remedy."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Misuse
from loopty.domain.objective import Direction
from loopty.domain.space import Parameter
from loopty.features.setup.task_draft import TaskDraft
from loopty.features.setup.template import render_task_file, write_task_file
from loopty.kit import codec
from loopty.kit.records import fields_of
from loopty.taskfile.plugins import CONTROLS, PROPOSERS
from loopty.taskfile.read import PLUGIN_TABLES, TABLES, load, parse

BENCHMARK = '[benchmark]\ncommand = "python3 evaluate.py"\ntimeout_seconds = 30\n'
WRITE = '[access]\nwrite = ["program.py"]\n'
SPACE = "[parameters.x]\ntype = 'float'\nlow = 0\nhigh = 1\n"


def faults(text: str) -> list[str]:
    with pytest.raises(Misuse) as caught:
        parse(text)
    return str(caught.value).splitlines()


def test_the_smallest_task_gets_the_defaults() -> None:
    task = parse(BENCHMARK + WRITE)
    assert task.benchmark.argv == ("/bin/sh", "-c", "python3 evaluate.py")
    assert (task.width, task.seed, task.proposer.kind, task.pruner.kind) == (1, 0, "mutate", "none")
    assert (task.control.kind, task.control.options) == ("mutate", {})


@pytest.mark.parametrize("text", ["", '[control]\nkind = "mutate"\n'])
def test_a_control_of_random_edits_has_no_memory_also_where_it_is_named(text: str) -> None:
    task = parse(BENCHMARK + WRITE + text)
    control, proposer = (
        codec.build(plugins.kinds["mutate"].load_options(), choice.options)
        for plugins, choice in ((CONTROLS, task.control), (PROPOSERS, task.proposer))
    )
    assert (control.parents, proposer.parents) == ("root", "best")


def test_every_key_of_the_reference_is_read() -> None:
    task = parse(
        """
        statement = "faster"
        width = 2
        seed = 7
        [benchmark]
        command = ["python3", "evaluate.py"]
        timeout_seconds = 2.5
        files = ["evaluate.py", "data/**"]
        result = "stdout"
        scratch = ["build"]
        env = { OMP_NUM_THREADS = "1" }
        mounts = ["~/data"]
        network = true
        resources = ["gpu"]
        grace_seconds = 0
        [objective]
        [[objective.metrics]]
        name = "latency ms"
        direction = "min"
        tolerance = 0.5
        [[objective.metrics]]
        name = "accuracy"
        [access]
        write = ["src/**"]
        hidden = ["answers"]
        [parameters.optimizer]
        type = "categorical"
        choices = ["sgd", "adam"]
        [parameters.momentum]
        type = "float"
        low = 0
        high = 0.99
        when = { optimizer = "sgd" }
        [limits]
        memory_mb = 64
        [pools]
        attempts = 3
        wall_seconds = 60
        [proposer]
        kind = "grid"
        points = 3
        [control]
        kind = "random"
        [pruner]
        kind = "median"
        warmup_steps = 3
        """
    )
    assert [metric.direction for metric in task.objective.metrics] == [Direction.MIN, Direction.MAX]
    assert task.space.order() == ["optimizer", "momentum"]
    assert task.proposer.options == {"points": 3}
    assert task.benchmark.argv == ("python3", "evaluate.py")


def test_all_faults_are_reported_at_once_each_with_line_and_key() -> None:
    reported = faults(
        """statement = 3
widht = 1
[benchmark]
command = "x"
timeout_seconds = "soon"
network = "no"
[objective]
direction = "up"
[[objective.metrics]]
name = "a"
[[objective.metrics]]
name = "b"
tolerance = -1
[access]
write = ["../x"]
[limits]
memory_mb = 0.5
[proposer]
kind = "grid"
point = 3
"""
    )
    assert [line.split(" ")[:2] for line in reported] == [
        ["loopty.toml:1:", "goal"],
        ["loopty.toml:2:", "widht"],
        ["loopty.toml:5:", "benchmark.timeout_seconds"],
        ["loopty.toml:6:", "benchmark.network"],
        ["loopty.toml:8:", "objective.direction"],
        ["loopty.toml:13:", "objective.metrics.1.tolerance"],
        ["loopty.toml:15:", "access.write"],
        ["loopty.toml:17:", "limits.memory_mb"],
        ["loopty.toml:19:", "proposer.kind"],
        ["loopty.toml:20:", "proposer.point"],
    ]
    assert "did you mean 'width'?" in reported[1]
    assert "did you mean 'points'?" in reported[-1]


@pytest.mark.parametrize(
    ("text", "line", "key", "word"),
    [
        ("", 1, "benchmark", "is missing"),
        ("[benchmark]\n", 1, "benchmark.command", "is missing"),
        (BENCHMARK, 1, "the task", "leaves nothing to change"),
        ('[benchmark]\ncommand = ""\ntimeout_seconds = 1\n' + WRITE, 2, "benchmark.command", "is empty"),
        ("[benchmark]\ncommand = []\ntimeout_seconds = 1\n" + WRITE, 2, "benchmark.command", "is empty"),
        ('[benchmark]\ncommand = "x"\ntimeout_seconds = 0\n' + WRITE, 3, "benchmark.timeout_seconds", "above 0"),
        ('[benchmark]\ncommand = "x"\ntimeout_seconds = nan\n' + WRITE, 3, "benchmark.timeout_seconds", "finite"),
        ('[benchmark]\ncommand = "x"\ntimeout_seconds = inf\n' + WRITE, 3, "benchmark.timeout_seconds", "finite"),
        (
            '[benchmark]\ncommand = "x"\ntimeout_seconds = 1e999\n' + WRITE,
            3,
            "benchmark.timeout_seconds",
            "finite",
        ),
        (
            f'[benchmark]\ncommand = "x"\ntimeout_seconds = 1{"0" * 400}\n{WRITE}',
            3,
            "benchmark.timeout_seconds",
            "finite",
        ),
        ('[benchmark]\ncommand = "x"\ntimeout_seconds = true\n' + WRITE, 3, "benchmark.timeout_seconds", "True"),
        (BENCHMARK + 'scratch = ["/tmp/x"]\n' + WRITE, 4, "benchmark.scratch", "relative"),
        (BENCHMARK + 'scratch = ["../x"]\n' + WRITE, 4, "benchmark.scratch", "relative"),
        (BENCHMARK + "env = { A = 1 }\n" + WRITE, 4, "benchmark.env.A", "must be text"),
        (BENCHMARK + 'result = "pipe"\n' + WRITE, 4, "benchmark.result", "file, stdout"),
        (BENCHMARK + "access = 3\n", 4, "benchmark.access", "not a known key"),
        ("access = 3\n" + BENCHMARK, 1, "access", "must be a table"),
        ("width = 0\n" + BENCHMARK + WRITE, 1, "width", "at least 1"),
        ("width = 1.5\n" + BENCHMARK + WRITE, 1, "width", "whole"),
        ("seed = -1\n" + BENCHMARK + WRITE, 1, "seed", "at least 0"),
        ("parameters = 3\n" + BENCHMARK + WRITE, 1, "parameters", "tables"),
        ('proposer = "tpe"\n' + BENCHMARK + WRITE, 1, "proposer", "must be a table"),
        (BENCHMARK + WRITE + '[proposer]\nkind = "tpee"\n', 7, "proposer.kind", "must be one of"),
        (BENCHMARK + WRITE + '[proposer]\nkind = ["tpe"]\n', 7, "proposer.kind", "must be text"),
        (
            BENCHMARK
            + WRITE
            + '[roles.evolver]\nmodel = "scripted:x"\n[proposer]\nkind = "llm-code"\noperators = []\n',
            10,
            "proposer.operators",
            "must not be empty",
        ),
        (BENCHMARK + WRITE + '[proposer]\nkind = "tpe"\n', 7, "proposer.kind", "needs parameters"),
        ("parameters_file = 'p.json'\n" + BENCHMARK + WRITE, 1, "parameters_file", "needs parameters"),
        ("parameters_file = 'p.yaml'\n" + BENCHMARK + SPACE, 1, "parameters_file", "ends in .json"),
        ("parameters_file = '../p.json'\n" + BENCHMARK + SPACE, 1, "parameters_file", "inside the repository"),
        ("parameters_file = '/p.json'\n" + BENCHMARK + SPACE, 1, "parameters_file", "inside the repository"),
        ("parameters_file = '.git/p.json'\n" + BENCHMARK + SPACE, 1, "parameters_file", "inside the repository"),
        (BENCHMARK + WRITE + "[parameters.x]\n", 6, "parameters.x.type", "is missing"),
        (BENCHMARK + "[parameters.x]\ntype = 'float'\nlow = 1\n", 4, "parameters.x", "needs low and high"),
        (
            BENCHMARK + "[parameters.x]\ntype = 'float'\nlow = 0\nhigh = 1\nwhen = { y = 1 }\n",
            8,
            "parameters.x.when",
            "not a parameter",
        ),
        (
            BENCHMARK + "[objective]\nmetrics = [{ name = 'a', weight = 1 }, { name = 'b' }]\n" + WRITE,
            5,
            "objective.metrics",
            "give all of them one",
        ),
        (
            BENCHMARK + "[objective]\nmetrics = [{ name = 'a', weight = -1 }]\n" + WRITE,
            5,
            "objective.metrics.0.weight",
            "above 0",
        ),
    ],
)
def test_a_fault_is_reported_once_with_its_line_its_key_and_a_remedy(
    text: str, line: int, key: str, word: str
) -> None:
    matching = [fault for fault in faults(text) if fault.startswith(f"loopty.toml:{line}: {key} ")]
    assert len(matching) == 1, faults(text)
    assert word in matching[0]


def test_a_circle_of_conditions_is_a_single_fault() -> None:
    text = BENCHMARK + (
        "[parameters.a]\ntype = 'int'\nlow = 0\nhigh = 1\nwhen = { b = 1 }\n"
        "[parameters.b]\ntype = 'int'\nlow = 0\nhigh = 1\nwhen = { a = 1 }\n"
        "[proposer]\nkind = 'tpe'\n"
    )
    assert faults(text) == ["loopty.toml:4: parameters depend on each other in a circle: a, b"]


def test_a_faulty_parameter_is_a_single_fault_also_when_another_depends_on_it() -> None:
    text = BENCHMARK + (
        "[parameters.a]\ntype = 'categorical'\n"
        "[parameters.b]\ntype = 'int'\nlow = 0\nhigh = 1\nwhen = { a = 'x' }\n"
    )
    (fault,) = faults(text)
    assert fault.startswith("loopty.toml:4: parameters.a ")


def test_a_condition_that_can_never_hold_is_a_fault() -> None:
    text = BENCHMARK + (
        "[parameters.a]\ntype = 'categorical'\nchoices = [true, false]\n"
        "[parameters.b]\ntype = 'int'\nlow = 0\nhigh = 1\nwhen = { a = 1 }\n"
    )
    assert faults(text) == ["loopty.toml:11: parameters.b.when needs a = 1, a value it never has"]


def test_values_keep_the_type_that_the_file_gives_them() -> None:
    text = BENCHMARK + (
        "[parameters.n]\ntype = 'int'\nlow = 1\nhigh = 9\ndefault = 5\n"
        "[parameters.c]\ntype = 'categorical'\nchoices = [1, 2.5, 'x', true]\n"
    )
    parameters = parse(text.replace(", true", "")).space.parameters
    assert repr(parameters["n"].baseline) == "5"
    assert repr(parameters["c"].choices) == "(1, 2.5, 'x')"


@pytest.mark.parametrize(
    "text",
    ["[benchmark", "a = ", "a = 1\na = 2", "a = " + "1" * 5000, "a = " + "[" * 5000, "\x00", "a = 2024-13-45"],
    ids=lambda text: text[:12].encode().hex(),
)
def test_invalid_toml_is_reported_in_one_line(text: str) -> None:
    (line,) = faults(text)
    assert line.startswith("loopty.toml is not valid TOML: ")


def test_line_numbers_count_only_newlines() -> None:
    assert faults('statement = "a\x85b\u2028c"\nwidth = 0\n' + BENCHMARK + WRITE)[0].startswith("loopty.toml:2: ")


def test_a_missing_or_unreadable_file_or_one_that_is_not_utf_8_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="loopty init"):
        load(tmp_path)
    (tmp_path / "loopty.toml").write_bytes(b"# fine\nstatement = '\xff\xfe'\n")
    with pytest.raises(Misuse, match=r"loopty\.toml:2: .*UTF-8"):
        load(tmp_path)
    (tmp_path / "loopty.toml").unlink()
    (tmp_path / "loopty.toml").mkdir()
    with pytest.raises(Misuse, match="cannot be read"):
        load(tmp_path)


def test_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "loopty.toml").write_bytes((BENCHMARK + WRITE).replace("\n", "\r\n").encode())
    assert load(tmp_path).access.write == ("program.py",)


_values = st.one_of(
    st.sampled_from(["1", "-1", "0.5", "nan", "inf", "true", '"x"', "[]", "[1]", '["a"]', "{}", "{ a = 1 }"]),
    st.sampled_from(["1979-05-27", "07:32:00", "[[]]", "9" * 300, "[{}]", '[{ name = "a" }]', '""']),
)
_keys = st.sampled_from(
    [
        "goal",
        "width",
        "seed",
        "benchmark",
        "objective",
        "access",
        "limits",
        "pools",
        "proposer",
        "control",
        "pruner",
        "parameters",
        "other",
        "benchmark.command",
        "benchmark.files",
        "benchmark.env",
        "benchmark.scratch",
        "objective.metrics",
        "pools.target",
        "access.write",
        "parameters.x",
        "parameters.x.type",
        "parameters.x.choices",
        "parameters.x.when",
        "limits.memory_mb",
        "pools.patience",
        "proposer.kind",
        "proposer.points",
        "pruner.kind",
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_keys, _values, max_size=8))
def test_any_file_is_either_a_task_or_misuse(keys: dict[str, str]) -> None:
    with contextlib.suppress(Misuse):
        parse("".join(f"{key} = {value}\n" for key, value in keys.items()))


def test_every_option_is_documented() -> None:
    tables = [*TABLES.values(), Parameter]
    tables += [plugin.load_options() for plugins in PLUGIN_TABLES.values() for plugin in plugins.kinds.values()]
    undocumented = [
        f"{table.__name__}.{field.name}"
        for table in tables
        for field in fields_of(table)
        if not field.facts.get("doc", "").endswith(".")
    ]
    assert undocumented == []


_lines = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(_lines, st.lists(_lines, max_size=3), st.sampled_from(list(Direction)), st.integers(0, 10**9))
def test_the_file_that_init_writes_contains_the_answers(
    text: str, write: list[str], direction: Direction, attempts: int
) -> None:
    clean = [f"x{path}".replace("/", "") for path in write] or ["a"]
    task = parse(
        render_task_file(TaskDraft(text, tuple(clean), text, direction, 0.5, attempts).with_note("command", text))
    )
    assert (task.statement, task.benchmark.command, task.access.write) == (text, text, tuple(clean))
    assert (task.objective.direction, task.pools.attempts) == (direction, attempts)


def test_the_file_for_parameters_lies_inside_the_repository() -> None:
    assert parse("parameters_file = 'conf/best.json'\n" + BENCHMARK + SPACE).parameters_file == "conf/best.json"


def test_a_tune_table_needs_a_slice() -> None:
    task = '[benchmark]\ncommand = "true"\ntimeout_seconds = 1\n[access]\nwrite = ["a"]\n'
    assert not parse(task).tune
    assert parse(task + '[tune]\nslice = "dev"\n').tune.trials == 16
    with pytest.raises(Misuse, match=r'tune.slice is empty: .* as in slice = "dev"'):
        parse(task + "[tune]\ntrials = 4\n")


COMBINE = """
[benchmark]
command = "true"
timeout_seconds = 1
[access]
write = ["a"]
[combine]
"""


def test_the_second_stage_has_its_own_files_parameters_and_proposer() -> None:
    parameter = '[combine.parameters.w]\ntype = "float"\nlow = 0\nhigh = 1\n'
    task = parse(COMBINE + 'write = ["blend.py"]\nattempts = 7\nproposer = { kind = "random" }\n' + parameter)
    stage = task.for_combination()
    assert (stage.access.write, list(stage.space.parameters)) == (("blend.py",), ["w"])
    assert (stage.pools.attempts, stage.proposer.kind, bool(stage.combine)) == (7, "random", False)
    assert (task.access.write, task.pools.attempts) == (("a",), 100)
    assert not parse(COMBINE.replace("[combine]", "")).combine


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("members = 3", "combine leaves nothing to change"),
        ('write = ["**"]', "combine.write covers loopty-pool/"),
        ('write = ["b"]\nproposer = { kind = "tpe" }', "combine.proposer.kind is tpe, which needs parameters"),
        ('write = ["b"]\nproposer = { kind = "x" }', "combine.proposer.kind must be one of"),
        ('write = ["b"]\nmembers = 1', "combine.members must be at least 2"),
        ('[combine.parameters.w]\ntype = "float"', "combine.parameters.w a parameter of type float needs low"),
    ],
)
def test_a_fault_of_the_second_stage_is_named(table: str, message: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse(COMBINE + table)
    assert message in str(caught.value)


def test_a_task_file_is_written_as_a_whole_and_not_through_a_link(tmp_path):
    other, place = tmp_path / "other", tmp_path / "repo"
    place.mkdir()
    other.write_text("mine")
    (place / "loopty.toml").symlink_to(other)
    write_task_file(place, TaskDraft("bench", ("a.py",)))
    assert other.read_text() == "mine"
    assert parse((place / "loopty.toml").read_text()).benchmark.command == "bench"
    assert [path.name for path in place.iterdir()] == ["loopty.toml"]


COUNTED = f'{BENCHMARK}measure = "instructions"\n'


def test_fewer_instructions_are_better_whatever_the_direction() -> None:
    assert parse(COUNTED + WRITE).objective.direction is Direction.MIN
    assert parse(f'{COUNTED}[objective]\ndirection = "max"\n{WRITE}').objective.direction is Direction.MIN
    assert parse(BENCHMARK + WRITE).objective.direction is Direction.MAX


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'{COUNTED}isolated = true\nfiles = ["evaluate.py"]\n{WRITE}', 'must be "clock" with isolated'),
        (f"{COUNTED}warm = true\n{WRITE}", 'must be "clock" with warm'),
        (f"{COUNTED}network = true\n{WRITE}", 'must be "clock" with network'),
        (f'{COUNTED}devices = ["gpu"]\n{WRITE}', 'must be "clock" with devices'),
        (f'{COUNTED}[[objective.metrics]]\nname = "score"\n{WRITE}', "wants more instructions"),
        (f'{BENCHMARK}measure = "cycles"\n{WRITE}', "measure"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_the_reason(text: str, words: str) -> None:
    assert words in "\n".join(faults(text))
