"""What `init` proposes in a folder of a larger repository."""

import pytest

from loopty.features.setup.proposal_text import folder_tasks

FILES = {
    "a/pyproject.toml": "[project]\nname = 'a'\n",
    "a/bench.py": "print(1)\n",
    "a/fast.py": "X = 1\n",
    "my b/pyproject.toml": "[project]\nname = 'b'\n",
    "my b/bench.py": "print(1)\n",
    "my b/slow.py": "X = 1\n",
    "my b/tests/test_slow.py": "def test_x():\n    assert True\n",
}


@pytest.fixture
def top(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_a_project_in_a_folder_is_measured_there_and_leaves_its_neighbours_alone(top):
    draft = folder_tasks(top, list(FILES), top / "my b")[0]
    assert draft.command == "cd 'my b' && python3 bench.py"
    assert draft.write == ("my b/slow.py",)
    assert draft.files == ("my b/bench.py", "my b/tests/**")
    assert [gate.command for gate in draft.gates] == [
        "cd 'my b' && python3 -m pytest -q -x -p no:cacheprovider tests/test_slow.py"
    ]


def test_the_top_and_a_folder_that_is_no_project_are_measured_as_a_whole(top):
    assert folder_tasks(top, list(FILES), top) == []
    assert folder_tasks(top, list(FILES), top / "my b" / "tests") == []
    assert folder_tasks(top, list(FILES), top.parent) == []


def test_a_program_beside_its_evaluator_is_a_task_of_its_own(top):
    for name, content in {
        "evaluator.py": "def evaluate(program_path): ...\n",
        "initial_program.py": "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n",
    }.items():
        (top / "examples/points").mkdir(parents=True, exist_ok=True)
        (top / "examples/points" / name).write_text(content)
    files = [*FILES, "examples/points/evaluator.py", "examples/points/initial_program.py"]
    (draft, *_) = folder_tasks(top, files, top / "examples" / "points")
    line = "python3 -m loopty_sdk.evaluate_program evaluator.py initial_program.py"
    assert draft.command == f"cd examples/points && {line}"
    assert draft.write == ("examples/points/initial_program.py",)
    assert draft.files == ("examples/points/evaluator.py",)
