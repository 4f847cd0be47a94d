"""`make demo` needs little, survives what interrupts it, and a wheel is all that a user needs."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
from pathlib import Path

import pytest

from .clean_environment import Installed, copy_sources

TOP = Path(__file__).parents[1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What set-up reads of a clone."""
    folder = copy_sources(tmp_path / "clone")
    shutil.copy(TOP / "requirements-runtime.lock", folder)
    return folder


def setup(clone: Path, **env: str) -> "subprocess.Popen[str]":
    """Set-up of the clone, without any package index."""
    return subprocess.Popen(
        ["sh", "scripts/setup.sh", "requirements-runtime.lock"],
        cwd=clone,
        env={
            "PATH": os.environ["PATH"],
            "PYTHON": sys.executable,
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
        }
        | env,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


# pip takes what it finds here for installed, so that these tests need no network.
INSTALLED = {"PYTHONPATH": sysconfig.get_path("purelib")}


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (TOP / lock).read_text(), re.MULTILINE))


def test_the_small_lock_has_what_loopty_needs_and_agrees_with_the_large_one() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["dependency-groups"]["install"]]
    small = pins("requirements-runtime.lock")
    assert {re.split(r"[><=]", name)[0] for name in needed} <= set(small)
    assert small.items() <= pins("requirements.lock").items()


def test_setup_without_a_network_says_so_and_the_next_one_completes(clone: Path) -> None:
    process = setup(clone)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "Without a network, connect first" in errors
    process = setup(clone, **INSTALLED)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "the last set-up did not finish" in errors
    loopty = [clone / ".venv/bin/loopty", "--version"]
    assert "loopty" in subprocess.check_output(loopty, env=INSTALLED, text=True)


def test_setup_on_a_full_disk_says_what_it_needs_and_makes_nothing(clone: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=8m tmpfs {disk}"
    in_namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*in_namespace, mount], capture_output=True).returncode:
        pytest.skip("a user may not mount a small disk here")
    script = f"{mount} && cp -R scripts requirements-runtime.lock {disk} && cd {disk} && " + (
        "sh scripts/setup.sh requirements-runtime.lock; echo $?; ls -d .venv"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable}
    done = subprocess.run([*in_namespace, script], cwd=clone, env=environment, capture_output=True, text=True)
    assert done.stdout == "1\n"
    line = done.stderr.splitlines()[0]
    assert re.fullmatch(r"setup: set-up needs 100 MB, and .* has \d MB left: make room, .*", line)


def test_setup_that_was_killed_completes_when_it_runs_again_and_waits_for_another(clone: Path) -> None:
    process = setup(clone, **INSTALLED)
    while not (clone / ".venv/.incomplete").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with (clone / "build/setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = setup(clone, **INSTALLED)
        assert process.stderr is not None
        assert "another set-up of this clone is running" in process.stderr.readline()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert (clone / ".venv/.ready").exists()
    process = setup(clone)
    assert process.communicate(timeout=60) == (None, ""), "what is ready is left alone"


def test_a_wheel_is_enough_for_doctor_init_and_optimize(installed: Installed, tmp_path: Path) -> None:
    def loopty(*args: str) -> str:
        process = installed.run(*args, at=repository, active=False)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout + process.stderr

    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "program.py").write_text("VALUE = 3\n")
    (repository / "bench.py").write_text(
        "from loopty_sdk import Run\nimport program\n\nRun().finish(program.VALUE)\n"
    )
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Start"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    loopty("doctor")
    loopty("init", "--command", "python3 bench.py", "--write", "program.py", "--attempts", "4")
    closing = loopty("optimize")
    assert "4 attempts" in closing
    assert f"call it as {installed.program}" in closing, "loopty is not on this PATH"


AGENT_TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 60
[access]
write = ["number.txt"]
[parameters]
a = { type = "float", low = 0.0, high = 2.0, default = 0.5 }
[tune]
slice = "dev"
[pools]
attempts = 1
tunes = 1
[proposer]
kind = "agent"
agent = "command"
command = ["sh", "-c", '''
said=$(loopty tool check 2>&1 && loopty tool submit mode=tune params='{"a": 1.0}' 2>&1)
echo "SUMMARY: $(echo "$said" | tail -n 1)"; echo 9 > number.txt''']
"""


@pytest.mark.parametrize("is_active", [True, False], ids=["activated", "a link on the PATH"])
def test_an_agents_tools_work_where_loopty_is_on_the_path(
    installed: Installed, tmp_path: Path, is_active: bool
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/loopty").symlink_to(installed.program)  # as `uv tool` and pipx do
    programs = installed.program.parent if is_active else tmp_path / "bin"
    environment = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    if is_active:
        environment["VIRTUAL_ENV"] = str(programs.parent)
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "bench.sh").write_text('echo "{\\"score\\": $(cat number.txt)}" > "$EVO_RESULT_PATH"\n')
    (repository / "number.txt").write_text("5\n")
    (repository / "loopty.toml").write_text(AGENT_TASK)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Start"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=repository, check=True)
    run = ["loopty", "optimize", "--trust", "--quiet"]
    process = subprocess.run(run, cwd=repository, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stdout + process.stderr
    show = [installed.program, "show", "1.1"]
    shown = " ".join(subprocess.check_output(show, cwd=repository, env=environment, text=True).split())
    assert "score 5 on the slice with a = 1;" in shown
