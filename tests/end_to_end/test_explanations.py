"""Every verb that shows a failure says its error, its log, and for the user's own code its cause and remedy."""

import json
from pathlib import Path

import pytest

PYTHON_TASK = """
[benchmark]
command = "python3 bench.py"
timeout_seconds = 20
[access]
write = ["src/**"]
[pools]
attempts = 2
"""
IMPORT = "print(1)\nraise ModuleNotFoundError(\"No module named 'yaml'\")\n"
"""What Python says where pyyaml is not installed."""
ERROR = "ModuleNotFoundError: No module named 'yaml'"
REMEDY = "python3 -m pip install pyyaml"


@pytest.fixture
def broken(place):
    """A repository whose benchmark does not work."""
    place.write("bench.py", IMPORT)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", PYTHON_TASK)
    place.commit()
    return place


def log_path(text: str) -> Path:
    line = next(line for line in text.splitlines() if line.startswith("full output: "))
    return Path(line.removeprefix("full output: "))


def test_a_check_says_error_cause_remedy_and_log(broken):
    output = broken.loopty("run", "1", "--check", code=1).stderr
    assert f"check failed: exit code 1: {ERROR}" in output
    assert "  |     raise ModuleNotFoundError(" in output
    assert "cause: yaml is not installed" in output
    assert f"  {REMEDY}\n" in output
    assert ERROR in (broken.top / log_path(output)).read_text()
    found = json.loads(broken.loopty("run", "1", "--check", "--json", code=1).stdout)["explanation"]
    assert found["cause"]["shell"] == REMEDY
    assert found["lines"][-1] == ERROR
    assert ERROR in Path(found["log"]).read_text()


def test_every_verb_says_why_the_baseline_failed(broken):
    output = broken.loopty("optimize", "-q", code=1).stderr
    assert f"  {REMEDY}\n" in output
    assert ERROR in (broken.top / log_path(output)).read_text()
    for verb in (("show", "1"), ("status",)):
        text = " ".join(broken.loopty(*verb).stdout.split())
        assert f"remedy run: {REMEDY}" in text
        assert ERROR in text
        assert "stderr.log" in text
        assert broken.json(*verb)["explanation"]["cause"]["name"] == "missing-python-module"
    assert json.loads(broken.loopty("optimize", "-q", "--json", code=1).stdout)["explanation"]["cause"]
    report = " ".join(broken.loopty("report").stdout.split())
    assert f"remedy run: {REMEDY}" in report
    assert broken.json("report")["explanation"]["cause"]["shell"] == REMEDY
    for verb, code in ((("tree",), 0), (("best",), 1)):
        said = broken.loopty(*verb, code=code).stderr
        assert "the baseline @2 gave no result: failed: exit code 1" in said
        assert f"  {REMEDY}\n" in said
        assert ERROR in (broken.top / log_path(said)).read_text()
    assert "the baseline gave no result" in broken.loopty("apply", code=2).stderr
    assert "the baseline gave no result" in broken.loopty("context").stdout


def test_a_candidate_that_fails_has_its_error_and_its_log_but_chooses_no_remedy(code_place):
    code_place.write("bench.sh", 'sh src/run.sh && echo "{\\"score\\": 1}" > "$EVO_RESULT_PATH"\n')
    code_place.write("src/run.sh", "true\n")
    code_place.commit()
    code_place.loopty("run", "1")
    code_place.loopty("new", "-m", "hostile")
    draft = code_place.top / ".loopty/drafts/1.1/src/run.sh"
    draft.write_text("printf 'cat: /root/.ssh: No such file or directory\\033[2J\\n' >&2; echo more >&2; exit 4\n")
    done = code_place.loopty("run", "1.1", code=1)
    assert "exit code 4: cat: /root/.ssh: No such file or directory" in done.stdout
    assert "full output: .loopty/nodes/1.1/stderr.log" in done.stderr
    shown = code_place.loopty("show", "1.1").stdout
    assert "cat: /root/.ssh" in shown
    for text in (done.stdout, done.stderr, shown):
        assert "mounts" not in text
        assert "\033" not in text
    assert "cause" not in code_place.json("show", "1.1")["explanation"]


def test_a_gate_that_fails_on_the_baseline_names_its_own_log(code_place):
    text = (code_place.top / "loopty.toml").read_text()
    code_place.write("loopty.toml", text + '[[gates]]\nname = "tests"\ncommand = "mkdir build"\n')
    output = code_place.loopty("run", "1", "--check", code=1).stderr
    assert 'scratch = ["build"]' in output
    assert output.count("gate-tests.stderr.log") == 1


def test_a_baseline_without_the_metric_of_the_task_says_which_it_has(code_place):
    text = (code_place.top / "loopty.toml").read_text()
    code_place.write("loopty.toml", text + '[[objective.metrics]]\nname = "speed"\n')
    output = code_place.loopty("run", "1", "--check", code=1).stderr
    assert "under [[objective.metrics]]:" in output
    assert '  name = "score"\n' in output
