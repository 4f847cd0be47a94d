"""A whole run under each back end that needs no image, with and without an isolated candidate."""

import json

import pytest

TASK = """
[benchmark]
command = "python3 evaluate.py"
files = ["evaluate.py"]
timeout_seconds = 30
isolated = {isolated}
[access]
write = ["src/**"]
[sandbox]
kind = "{kind}"
"""
APART = """\
from loopty_sdk import Run, candidate
with candidate("src/program.py:answer", seconds=10) as answer:
    Run().finish(answer(2))
"""
TOGETHER = """\
import sys
sys.path.insert(0, "src")
import program
from loopty_sdk import Run
Run().finish(program.answer(2))
"""


@pytest.mark.parametrize("isolated", [True, False], ids=["apart", "together"])
@pytest.mark.parametrize("kind", ["namespaces", "bubblewrap", "landlock"])
def test_a_changed_candidate_is_measured_and_kept(place, kind, isolated):
    place.write("loopty.toml", TASK.format(kind=kind, isolated=str(isolated).lower()))
    place.write("evaluate.py", APART if isolated else TOGETHER)
    place.write("src/program.py", "def answer(x):\n    return x\n")
    place.write("src/other.py", "")
    place.commit()
    place.loopty("run", "1")
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/program.py").write_text("def answer(x):\n    return 3 * x\n")
    (place.top / made["workspace"] / "src/new.py").write_text("")
    node = json.loads(place.loopty("run", made["node"], "--json").stdout)
    assert node["verdict"] == "kept"
    assert node["outcome"]["metrics"] == {"score": 6}
    assert node["outcome"]["integrity"] == ("strong" if isolated else "weak")


def test_a_run_moves_from_one_back_end_to_another(place):
    place.write("loopty.toml", TASK.format(kind="bubblewrap", isolated="true"))
    place.write("evaluate.py", APART)
    place.write("src/program.py", "def answer(x):\n    return x\n")
    place.commit()
    place.loopty("run", "1")
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/program.py").write_text("def answer(x):\n    return 3 * x\n")
    place.loopty("run", made["node"])
    place.write("loopty.toml", TASK.format(kind="landlock", isolated="true"))
    assert place.json("rebaseline")["incumbent"] == made["node"]
    assert place.json("rebaseline")["machine"]["sandbox"] == "landlock"


def test_an_isolated_benchmark_finds_what_it_imports_and_the_candidate_does_not(place):
    task = TASK.format(kind="bubblewrap", isolated="true").replace('files = ["evaluate.py"]\n', "")
    place.write("loopty.toml", task)
    place.write(
        "evaluate.py",
        "from reference import expected\n" + APART.replace("answer(2)", "int(answer(2) == expected)"),
    )
    place.write("reference.py", "expected = False\n")
    program = "import os\ndef answer(x):\n    return os.path.exists('reference.py')\n"
    place.write("src/program.py", program)
    place.commit()
    assert place.json("run", "1")["outcome"]["metrics"]["score"] == 1
