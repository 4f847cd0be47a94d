"""Environments that git ignores: trials see them, import the candidate's files through them, write nothing."""

import pytest

from ..needs import needs

TASK = """
[benchmark]
command = {command}
timeout_seconds = 30
result = "stdout"
isolated = {isolated}
files = ["bench.sh"]
[access]
write = ["src/**"]
[sandbox]
kind = "{kind}"
"""
TOOL = """#!{top}/.venv/bin/python
import mine
print("score:", mine.answer)
"""


@pytest.fixture
def python_place(place):
    """A repository with an environment in which its own package is installed as editable, and a tool."""
    place.write(".gitignore", ".venv/\nnode_modules/\n")
    place.write("src/mine.py", "answer = 3\n")
    place.write("bench.sh", "exec measure-it\n")
    site = place.top / ".venv/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (place.top / ".venv/bin").mkdir()
    (place.top / ".venv/bin/python").symlink_to("/usr/bin/python3")
    (place.top / ".venv/pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    tool = place.top / ".venv/bin/measure-it"
    tool.write_text(TOOL.format(top=place.top))
    tool.chmod(0o755)
    version = "{}.{}".format(*_system_python_version())
    (place.top / f".venv/lib/python{version}/site-packages").mkdir(parents=True, exist_ok=True)
    (place.top / f".venv/lib/python{version}/site-packages/mine.pth").write_text(f"{place.top}/src\n")
    return place


def _system_python_version():
    import json
    import subprocess

    script = "import json, sys; print(json.dumps(sys.version_info[:2]))"
    return json.loads(subprocess.run(["/usr/bin/python3", "-c", script], capture_output=True, check=True).stdout)


needs_python = needs("python3", path="/usr/bin")


@needs_python
@pytest.mark.parametrize("kind", ["namespaces", "bubblewrap", "landlock"])
def test_an_environment_that_is_not_active_runs_the_candidates_own_files(python_place, kind):
    place = python_place
    place.write("loopty.toml", TASK.format(command='"sh bench.sh"', isolated="false", kind=kind))
    place.commit()
    assert place.json("run", "1")["outcome"]["metrics"]["score"] == 3
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/mine.py").write_text("answer = 7\n")
    assert place.json("run", made["node"])["outcome"]["metrics"]["score"] == 7


@needs_python
def test_an_environment_cannot_be_written(python_place):
    place = python_place
    place.write("bench.sh", "touch .venv/bin/x; touch $(dirname $(command -v measure-it))/y; echo score: 1\n")
    place.write("loopty.toml", TASK.format(command='"sh bench.sh"', isolated="false", kind="bubblewrap"))
    place.commit()
    place.loopty("run", "1")
    assert not {"x", "y"} & {path.name for path in (place.top / ".venv/bin").iterdir()}


def test_a_package_that_is_installed_later_is_another_cohort(place):
    place.write(".gitignore", "node_modules/\n")
    place.write("bench.sh", "ls node_modules | wc -l\n")
    place.write("node_modules/one/index.js", "")
    place.write("src/x", "")
    place.write("loopty.toml", TASK.format(command='"sh bench.sh"', isolated="false", kind="bubblewrap"))
    place.commit()
    assert place.json("run", "1")["outcome"]["metrics"]["score"] == 1
    place.write("node_modules/two/index.js", "")
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/x").write_text("new\n")
    refused = place.loopty("run", made["node"], code=None)
    assert "environments" in refused.stdout + refused.stderr
