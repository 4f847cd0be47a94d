"""Byte code of the SDK and of the benchmark: compiled once, by loopty, and never taken from a candidate."""

import importlib.util
import marshal
import os
import subprocess
import sys

import pytest

TASK = """
[benchmark]
command = "{python} evaluate.py"
files = ["evaluate.py", "reference/**"]
timeout_seconds = 60
isolated = {isolated}
[access]
write = ["src/**", "**/__pycache__/**", "__pycache__/**"]
[sandbox]
kind = "{kind}"
"""
IS_SEALED = """\
def is_sealed(module):
    try:
        with open(module.__cached__, "ab"):
            return False
    except OSError:
        return os.path.exists(module.__cached__)
"""
# The score is the number of modules that were loaded from byte code which nobody here can write.
EVALUATE = """\
import os, sys
sys.path.insert(0, "reference")
import helper
import loopty_sdk
from loopty_sdk import Run, candidate
{is_sealed}candidate.run(["true"])
Run().finish(helper.VALUE * (is_sealed(helper) + is_sealed(loopty_sdk)))
"""


@pytest.fixture
def repository(place):
    place.write("evaluate.py", EVALUATE.format(is_sealed=IS_SEALED))
    place.write("reference/helper.py", "VALUE = 1\n")
    place.write("src/program.py", "x = 1\n")
    return place


def write_task(place, kind="bubblewrap", isolated="true", python="python3"):
    place.write("loopty.toml", TASK.format(kind=kind, isolated=isolated, python=python))
    place.commit()


def score(place, node):
    return place.json("run", node)["outcome"]["metrics"]["score"]


def forged(source: str) -> bytes:
    """Byte code of this source that an interpreter loads without a look at the file beside it."""
    code = compile(source, "forged", "exec")
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(code)


def cache_name(module: str) -> str:
    return f"__pycache__/{module}.{importlib.util.cache_from_source('x.py').split('.', 1)[1]}"


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_every_trial_loads_byte_code_that_no_trial_can_write(repository, kind):
    write_task(repository, kind)
    assert score(repository, "1") == 2
    entries = list(repository.state.glob("exports/bytecode_*"))
    made = repository.json("new", "--parent", "1")
    (repository.top / made["workspace"] / "src/program.py").write_text("x = 2\n")
    assert score(repository, made["node"]) == 2
    assert list(repository.state.glob("exports/bytecode_*")) == entries, "it was compiled once"
    assert not list(repository.top.glob("reference/__pycache__/*.pyc"))


def test_byte_code_that_a_candidate_brings_is_never_loaded_for_the_benchmark(repository):
    write_task(repository)
    assert score(repository, "1") == 2
    made = repository.json("new", "--parent", "1")
    top = repository.top / made["workspace"]
    for folder, module in (
        ("", "evaluate"),
        ("reference/", "helper"),
        ("loopty_sdk/", "run"),
        ("src/", "program"),
    ):
        path = top / f"{folder}{cache_name(module)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(forged("VALUE = 100\n"))
    (top / "src/program.py").write_text("x = 2\n")
    assert score(repository, made["node"]) == 2


def test_byte_code_in_the_commit_is_replaced_by_what_the_sources_say(repository):
    path = repository.top / "reference" / cache_name("helper")
    path.parent.mkdir()
    path.write_bytes(forged("VALUE = 100\n"))
    write_task(repository)
    assert repository.git("ls-files", "reference/__pycache__")
    assert score(repository, "1") == 2


def test_another_interpreter_compiles_for_itself(repository):
    repository.write(".gitignore", "env/\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--copies", repository.top / "env"], check=True)
    write_task(repository, python="env/bin/python")
    assert score(repository, "1") == 2


@pytest.mark.parametrize("broken", ["this is no Python", "'" + "(" * 5000])
def test_a_file_that_cannot_be_compiled_stops_nothing(repository, broken):
    repository.write("reference/broken.py", broken)
    write_task(repository)
    assert score(repository, "1") == 2


def test_a_link_in_place_of_the_folder_stops_nothing(repository):
    (repository.top / "elsewhere").mkdir()
    repository.write("elsewhere/x", "")
    (repository.top / "reference/__pycache__").symlink_to("../elsewhere")
    write_task(repository)
    assert repository.json("run", "1")["outcome"]["metrics"]["score"] == 1
    assert [path.name for path in (repository.top / "elsewhere").iterdir()] == ["x"]


TOGETHER = """\
import os, sys
sys.path.insert(0, "reference")
from loopty_sdk import Run
import helper
from lib import tools
from src import program
{is_sealed}Run().finish(100 * program.x + 10 * is_sealed(tools) + is_sealed(helper) * helper.VALUE)
"""


@pytest.fixture(params=["bubblewrap", "landlock"])
def together(place, request):
    """A benchmark that loads the candidate into its own process."""
    place.write("evaluate.py", TOGETHER.format(is_sealed=IS_SEALED))
    place.write("reference/helper.py", "VALUE = 1\n")
    place.write("lib/tools.py", "y = 1\n")
    place.write("src/program.py", "x = 1\n")
    write_task(place, request.param, isolated="false")
    return place


def changed(place, files):
    made = place.json("new", "--parent", "1")
    for name, content in files.items():
        path = place.top / made["workspace"] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return made["node"]


def test_all_files_that_no_candidate_may_write_have_byte_code(together):
    assert score(together, "1") == 111
    (export,) = (path.parent for path in together.state.glob("exports/*/loopty.toml"))
    # Not the program: a candidate that changes it would take longer to start than the baseline.
    names = ["evaluate", "helper", "tools"]
    assert sorted(path.name.partition(".")[0] for path in export.rglob("*.pyc")) == names
    assert score(together, changed(together, {"src/program.py": b"x = 2\n"})) == 211
    assert len(list(together.state.glob("exports/bytecode_*"))) == 1, "it was compiled once"


def test_byte_code_of_a_commit_does_not_hide_what_a_candidate_changes(together):
    for name, source in (("src", "x = 100\n"), ("lib", "y = 100\n")):
        path = together.top / name / cache_name({"src": "program", "lib": "tools"}[name])
        path.parent.mkdir()
        path.write_bytes(forged(source))
    together.commit()
    assert together.git("ls-files", "src/__pycache__")
    assert score(together, "1") == 111
    assert score(together, changed(together, {"src/program.py": b"x = 2\n"})) == 211


def test_held_out_files_have_no_byte_code_in_a_trial(together):
    together.write("reference/held/answers.py", "SECRET = 1\n")
    task = together.top / "loopty.toml"
    task.write_text(task.read_text() + '[audit]\ncommand = "true"\ndata = ["reference/held"]\n')
    together.commit()
    assert score(together, "1") == 111
    exports = [path for path in together.state.glob("exports/*") if (path / "evaluate.py").exists()]
    assert exports
    assert not [path for export in exports for path in export.rglob("answers*")]


@pytest.mark.parametrize("name", [b"caf\xe9.py", b"d.pyc/a.py", b"n" * 245 + b".py"])
def test_an_odd_name_stops_nothing(together, name):
    together.write(f"reference/{os.fsdecode(name)}", "z = 1\n")
    together.write(f"reference/{cache_name('helper')}/x", "")
    together.commit()
    assert score(together, "1") % 100 in (10, 11)


def test_changed_byte_code_of_the_benchmark_is_noticed(together):
    assert score(together, "1") == 111
    (path,) = together.state.glob("exports/*/reference/__pycache__/helper.*.pyc")
    path.write_bytes(forged("VALUE = 100\n"))
    ended = together.loopty("run", changed(together, {"src/program.py": b"x = 2\n"}), code=None)
    assert ended.returncode != 0
    assert f"reference/{cache_name('helper')} was changed" in ended.stderr
