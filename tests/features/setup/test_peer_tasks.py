"""Tasks of other tools: what is recognised in miniatures of their folders, and how it is wired."""

import pytest

from loopty.domain.errors import Misuse
from loopty.features.setup.peers.plain_yaml import read_yaml
from loopty.features.setup.peers.recognised_tasks import recognised_task, task_here, write_new_files
from loopty.features.setup.template import render_task_file
from loopty.taskfile import read

from ...end_to_end.peer_layouts import (
    AIDE,
    AUTORESEARCH,
    CORAL,
    EVO,
    GEPA,
    GEPA_CASES,
    HARBOR,
    LAYOUTS,
    OPENEVOLVE,
    OPTUNA,
    PI_AUTORESEARCH,
    SHINKA,
    STAGES,
)


@pytest.fixture
def found(tmp_path):
    def recognise(layout, folder=""):
        for path, text in layout.items():
            (tmp_path / folder / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / path).write_text(text)
        if folder:
            return task_here(tmp_path, [f"{folder}/{path}" for path in layout], tmp_path / folder)
        return recognised_task(tmp_path, list(layout))

    return recognise


@pytest.mark.parametrize(
    ("layout", "sentence", "command", "write"),
    [
        (
            OPENEVOLVE,
            "recognised OpenEvolve: evaluator.py scores initial_program.py, config.yaml sets the budget",
            "python3 -m loopty_sdk.evaluate_program evaluator.py initial_program.py",
            ("initial_program.py",),
        ),
        (
            SHINKA,
            "recognised ShinkaEvolve: evaluate.py scores initial.py",
            "python3 -m loopty_sdk.evaluate_program evaluate.py initial.py --as shinka",
            ("initial.py",),
        ),
        (
            GEPA,
            "recognised GEPA: optimize.py calls optimize_anything; its seed is candidate.txt",
            "python3 -m loopty_sdk.evaluate_program optimize.py candidate.txt --as gepa",
            ("candidate.txt",),
        ),
        (
            CORAL,
            "recognised CORAL: eval/grader.py looks at seed/",
            "python3 -m loopty_sdk.evaluate_program eval/grader.py seed --as coral "
            '--args \'{"args": {"round": 2}, "timeout": 60.0}\'',
            ("seed/**",),
        ),
        (
            AUTORESEARCH,
            "recognised autoresearch: program.md is the goal, train.py prints val_bpb",
            "python3 train.py",
            ("train.py",),
        ),
        (
            PI_AUTORESEARCH,
            "recognised pi-autoresearch: .auto/measure.sh prints METRIC total_ms, .auto/checks.sh is a gate",
            "bash .auto/measure.sh",
            ("main.py", "lib/**"),
        ),
        (
            EVO,
            "recognised evo: .evo has the benchmark python3 bench.py {target}",
            "python3 bench.py agent.py",
            ("agent.py",),
        ),
        (AIDE, "recognised AIDE: task.md is the goal, input/ the data", "python3 solution.py", ("solution.py",)),
        (
            OPTUNA,
            "recognised Optuna: objective(trial) of tune.py has 3 parameters",
            "python3 -m loopty_sdk.evaluate_objective tune.py",
            (),
        ),
    ],
)
def test_a_folder_of_another_tool_is_recognised_in_one_line_and_wired(found, layout, sentence, command, write):
    task = found(layout)
    assert (task.sentence, task.draft.command, task.draft.write) == (sentence, command, write)
    assert task.refusal == ""
    assert read.parse(render_task_file(task.draft)).benchmark.command == command


def test_each_layout_is_taken_for_no_other_tool(found):
    assert {found(layout).tool for layout in LAYOUTS.values()} == {
        "OpenEvolve", "ShinkaEvolve", "CORAL", "autoresearch", "AIDE", "GEPA",
    }  # fmt: skip


def test_the_config_of_openevolve_is_the_budget_the_goal_and_the_cascade(found):
    draft = found(STAGES).draft
    assert draft.command.endswith("--stage all")
    assert [(stage.name, stage.minimum) for stage in draft.stages] == [("stage 1", 0.4)]
    assert (draft.attempts, draft.timeout_seconds, draft.model) == (25, 40.0, "gpt-5-mini")
    assert draft.statement == "Place points\nfar apart."
    task = read.parse(render_task_file(draft))
    assert task.benchmark.cascade[0].command.endswith("--stage 1")
    assert task.roles.evolver.model == "", "a model of a config is a proposal: it costs money"


def test_a_task_in_a_folder_starts_there(found):
    task = found(STAGES, "my task")
    assert task.draft.command.startswith("cd 'my task' && python3 -m loopty_sdk")
    assert task.draft.stages[0].command.startswith("cd 'my task' && ")
    assert task.draft.write == ("my task/initial_program.py",)


def test_a_seed_in_a_script_becomes_a_file_for_each_part(found):
    task = found(GEPA_CASES)
    assert task.new_files == {"candidate/intro.txt": "say it", "candidate/end.txt": "bye"}
    assert task.draft.write == ("candidate/*",)
    assert task.draft.audit_command == task.draft.command
    assert task.draft.statement == "Say it well"


@pytest.mark.parametrize("name", ["../../escape", "/tmp/escape", "..", "a/b", ".hidden", ""])
def test_a_part_of_a_seed_names_no_file_elsewhere(found, name):
    task = found({"optimize.py": GEPA_CASES["optimize.py"].replace('"intro"', repr(name))})
    assert "has parts whose names are no file names" in task.refusal
    assert task.new_files == {}


def test_new_files_follow_no_link_and_replace_no_file(found, tmp_path):
    task, top = found(GEPA_CASES), tmp_path
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (top / "candidate").symlink_to(elsewhere)
    with pytest.raises(Misuse, match="a link or a file is in its place"):
        write_new_files(top, task)
    assert not [*elsewhere.iterdir()]
    (top / "candidate").unlink()
    (top / "candidate").touch()
    with pytest.raises(Misuse, match="a link or a file is in its place"):
        write_new_files(top, task)
    (top / "candidate").unlink()
    write_new_files(top, task)
    assert (top / "candidate/end.txt").read_text() == "bye"
    with pytest.raises(Misuse, match="a link or a file is in its place"):
        write_new_files(top, task)


def test_a_program_of_which_only_functions_are_used_can_have_a_sandbox_of_its_own(found):
    task = found(STAGES)
    assert task.isolation.names == ("run",)
    assert task.isolation.draft.isolated
    assert [one.command.rpartition(" --")[2] for one in (task.isolation.draft, *task.isolation.draft.stages)] == [
        "isolated run",
        "isolated run",
    ]
    reads = OPENEVOLVE["evaluator.py"] + "\nSOURCE = lambda program_path: open(program_path).read()\n"
    assert found({**OPENEVOLVE, "evaluator.py": reads}).isolation.reason == "evaluator.py reads the program's text"
    value = {"initial_program.py": OPENEVOLVE["initial_program.py"] + "\nSIZE = 3\n"}
    uses = {"evaluator.py": OPENEVOLVE["evaluator.py"].replace("program.run()", "program.run() * program.SIZE")}
    assert (
        "uses SIZE of the program, which is no function" in found({**OPENEVOLVE, **value, **uses}).isolation.reason
    )


def test_the_metric_direction_and_scope_of_pi_autoresearch_are_those_of_its_prompt(found):
    draft = found(PI_AUTORESEARCH).draft
    assert (draft.score_key, draft.direction, draft.attempts) == ("total_ms", "min", 30)
    assert [gate.command for gate in draft.gates] == ["bash .auto/checks.sh"]
    assert draft.statement.startswith("Make main.py faster")


def test_the_parameters_of_an_objective_are_read_from_its_text(found):
    parameters = found(OPTUNA).draft.parameters
    assert (parameters["lr"].low, parameters["lr"].high, parameters["lr"].log) == (1e-5, 0.1, True)
    assert (parameters["layers"].type, parameters["kind"].choices) == ("int", ("a", "b"))


def _tuned(call):
    return {"tune.py": f"import optuna\n\n\ndef objective(trial):\n    return {call}\n"}


def test_a_choice_that_toml_lacks_is_named_by_its_text_and_a_step_is_kept(found):
    draft = found(
        _tuned('trial.suggest_categorical("k", [None, 3]), trial.suggest_int("n", 32, 500, step=32)')
    ).draft
    parameters = read.parse(render_task_file(draft)).space.parameters
    assert parameters["k"].choices == ("None", 3)
    assert (parameters["n"].step, parameters["n"].at(1.0)) == (32, 480)


@pytest.mark.parametrize(
    ("layout", "refusal"),
    [
        (_tuned('trial.suggest_float("x", "a", "b")'), "computes its bounds"),
        (_tuned('trial.suggest_float("x", 0, 1' + "0" * 400 + ")"), "computes its bounds"),
        (_tuned('trial.suggest_categorical("x", 5)'), "computes its bounds"),
        (_tuned('trial.suggest_float("x", 5, 1)'), "x of tune.py: low = 5.0 must be"),
        ({**EVO, ".evo/meta.json": "{}", ".evo/config.json": '{"target": "a", "benchmark": "b", "gates": 5}'}, ""),
        *(
            (
                {**STAGES, "config.yaml": f"max_iterations: {many}\nevaluator:\n  cascade_thresholds: [{many}]\n"},
                "",
            )
            for many in ("inf", "nan", "9" * 400)
        ),
        ({**AUTORESEARCH, "program.md": f"If a run exceeds {'9' * 400} minutes, kill it"}, ""),
    ],
)
def test_odd_settings_are_left_out_or_refused(found, layout, refusal):
    task = found(layout)
    assert refusal in task.refusal
    assert bool(refusal) == bool(task.refusal)
    assert task.draft.attempts == 100
    if not refusal:
        read.parse(render_task_file(task.draft))


def test_a_task_with_its_own_image_is_refused_with_the_next_step(found, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "no container engine is here: install docker or podman" in found(HARBOR).refusal
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert "docker build -t" in found(HARBOR).refusal


@pytest.mark.parametrize(
    "layout",
    [
        {"evaluator.py": "def evaluate(program_path): ...\n"},
        {"evaluate.py": "def evaluate(): ...\n", "initial.py": ""},
        {"task.yaml": "name: something else\n"},
        {"tune.py": "def objective(trial): ...\n"},
        {".evo/meta.json": "[]", "task.md": "do it", "program.md": "docs"},
        {"evaluator.py": "def evaluate(program_path: ...\n", "initial_program.py": ""},
    ],
)
def test_what_only_looks_alike_is_not_recognised(found, layout):
    assert found(layout) is None


def test_plain_yaml_is_read_and_what_is_not_plain_is_left_alone():
    text = """\
# a comment
a: 1
b: {c: [1.5, "x, y"], d: true}   # flow
text: |
  one
    two

folded: >-
  one
  two
models:
  - name: "m # 1"
    weight: 0.5
  - plain
empty:
"""
    assert read_yaml(text) == {
        "a": 1,
        "b": {"c": [1.5, "x, y"], "d": True},
        "text": "one\n  two",
        "folded": "one two",
        "models": [{"name": "m # 1", "weight": 0.5}, "plain"],
        "empty": None,
    }
    for strange in ("- a\n- b\n", "a: b: c: [", "\x00", "{", "a:\n- [" * 50, "just words\n"):
        assert isinstance(read_yaml(strange), dict)
