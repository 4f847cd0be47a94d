"""The recipes for schedulers and clouds: what they say, and what the real programs make of them.

SkyPilot and loopty need different releases of click, and Modal's client is large, so neither is among the packages
of the tests. `pytest -m registry tests/features/fleet/test_recipes.py` fetches both and asks them; nothing is
rented. tests/end_to_end/test_clusters.py runs the recipe for Slurm.
"""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from loopty.domain.task_tables import ExecutorSpec
from loopty.features.fleet.start_command import RECIPES, recipe_text, run_start_command
from loopty.kit import installation
from loopty.version import __version__

URL = "loopty://secret@driver:7700/?certificate=" + "a" * 64
_LIMIT = 120


@pytest.fixture(autouse=True)
def from_an_index(monkeypatch):
    """Have this loopty come from a package index; that of the tests comes from a folder."""
    monkeypatch.setattr(installation, "_origin", lambda: None)


@pytest.mark.parametrize(
    ("origin", "installed"),
    [
        (None, f"loopty=={__version__}"),
        ({"url": "https://example.org/loopty.whl", "archive_info": {}}, "loopty @ https://example.org/loopty.whl"),
        (
            {"url": "https://example.org/loopty", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "loopty @ git+https://example.org/loopty@abc",
        ),
        ({"url": "file:///home/me/loopty", "dir_info": {}}, ""),
    ],
)
def test_a_rented_machine_gets_loopty_from_where_this_one_came(monkeypatch, origin, installed):
    monkeypatch.setattr(installation, "_origin", lambda: origin)
    assert f"install='{installed}' #" in recipe_text("sky")
    assert f'INSTALL = "{installed}"' in recipe_text("modal")


async def test_of_a_loopty_from_a_folder_nothing_is_rented_until_the_user_says_what_is_installed(sky, monkeypatch):
    monkeypatch.setattr(installation, "_origin", lambda: {"url": "file:///home/me/loopty", "dir_info": {}})
    make, called, calls = sky
    reason = await run_start_command(make(SCRIPTED.format(calls=calls, launch="true")), URL, 1)
    assert "say in this file what pip installs on the rented machine" in reason
    assert called() == []


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_how_to_use_it_and_that_nothing_stays(name):
    text = recipe_text(name)
    lines = [line.removeprefix("#").strip() for line in text.splitlines()]
    first = lines.index("[executor]")
    table = tomllib.loads("\n".join(lines[first : lines.index("", first)]))["executor"]
    assert ExecutorSpec(**table).kind == "pool"
    file = re.search(rf"loopty system worker --recipe {name} > (\S+)", text)[1]
    assert file in table["start"]
    assert re.search(r"(No job|Nothing rented) stays", text)
    assert "--patience 120" in text.replace('", "', " ")
    assert ("NEVER RUN ON A RENTED MACHINE" in text) == (name != "slurm")
    assert "@" not in text.replace("@app", "").replace("$@", "").replace(__version__, "")


SCRIPTED = """#!/bin/sh
echo "$@" >>{calls}
[ "$1" = down ] && exit
for task; do :; done
cp "$task" {calls}.yaml
{launch}
"""
"""In place of SkyPilot's program: writes down how it was called."""


@pytest.fixture
def sky(tmp_path, monkeypatch):
    """Puts a program `sky` on the path; returns the recipe's command, and what has called it."""
    calls = tmp_path / "calls"

    def make(program):
        (tmp_path / "sky").write_text(program)
        (tmp_path / "sky").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        (tmp_path / "loopty-sky.sh").write_text(recipe_text("sky"))
        return f"sh {tmp_path}/loopty-sky.sh --infra aws --gpus H100:1 --use-spot"

    return make, lambda: calls.read_text().splitlines() if calls.exists() else [], calls


async def test_a_rented_machine_is_given_back_when_its_worker_has_ended(sky, tmp_path):
    make, called, calls = sky
    command = make(SCRIPTED.format(calls=calls, launch="echo no such machine is free; exit 1"))
    assert await asyncio.wait_for(run_start_command(command, URL, 3), _LIMIT) == "no such machine is free"
    launch, down = called()
    name = re.search(r"--cluster (loopty-3-\d+) ", launch)[1]
    assert "--secret LOOPTY_WORKER_URL --infra aws --gpus H100:1 --use-spot" in launch
    assert "secret@driver" not in launch
    assert down == f"down --yes {name}"
    assert list(tmp_path.glob("*.yaml")) == [tmp_path / "calls.yaml"]
    assert f"pip install 'loopty=={__version__}'" in (tmp_path / "calls.yaml").read_text()


async def test_a_machine_that_is_no_longer_wanted_is_given_back(sky):
    make, called, calls = sky
    command = make(SCRIPTED.format(calls=calls, launch="exec sleep 1000"))
    worker = asyncio.create_task(run_start_command(command, URL, 1))
    async with asyncio.timeout(_LIMIT):
        while not called():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(worker, _LIMIT)
    assert [line.split()[0] for line in called()] == ["launch", "down"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Makes an environment with the newest release of a package; returns its programs."""

    def make(package):
        folder = tmp_path_factory.mktemp(package)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", package], check=True)
        return folder / "bin"

    return make


READ_BY_SKYPILOT = """#!{python} -I
import json, pathlib, sys
import sky
from sky.client.cli import command

verb, *words = sys.argv[1:]
given = getattr(command, verb).make_context(verb, words).params
found = {{"verb": verb, "clusters": given.get("clusters") or [given["cluster"]]}}
if verb == "launch":
    task = sky.Task.from_yaml(*given["entrypoint"])
    task.update_secrets(given["secret"])
    options = {{"infra": given["infra"], "accelerators": given["gpus"], "use_spot": given["use_spot"]}}
    task.set_resources_override(options)
    found["task"] = task.to_yaml_config(use_user_specified_yaml=False)
with open({calls!r}, "a") as file:
    print(json.dumps(found), file=file)
"""
"""In place of SkyPilot's program: its own parsers read the options and the task."""


@pytest.mark.registry
async def test_skypilots_own_parsers_read_the_options_and_the_task(sky, environment, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    make, called, calls = sky
    program = READ_BY_SKYPILOT.format(python=environment("skypilot") / "python", calls=str(calls))
    await asyncio.wait_for(run_start_command(make(program), URL, 1), _LIMIT)
    launch, down = map(json.loads, called())
    assert (launch["verb"], down["verb"], down["clusters"]) == ("launch", "down", launch["clusters"])
    task = launch["task"]
    assert task["run"] == "timeout 600m loopty system worker --trust --patience 120"
    assert f"pip install 'loopty=={__version__}'" in task["setup"]
    assert task["resources"] == {
        "infra": "aws",
        "accelerators": {"H100": 1},
        "use_spot": True,
        "autostop": {"idle_minutes": 5, "down": True},
    }
    assert task["secrets"] == {"LOOPTY_WORKER_URL": URL}


@pytest.fixture(scope="module")
def modal_programs(environment):
    return environment("modal")


def run_modal(programs, folder, *options):
    """Run the recipe as its head says, by Modal's real program, with a server of its protocol."""
    (folder / "loopty_modal.py").write_text(recipe_text("modal"))
    start = re.search(r'start = "(.*)"', recipe_text("modal"))[1].replace("~", str(folder))
    server = Path(__file__).parents[2] / "servers/modal_server.py"
    done = subprocess.run(
        [programs / "python", server, *options, *shlex.split(start)],
        env={
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LOOPTY_WORKER_URL": URL,
        },
        capture_output=True,
        text=True,
        timeout=_LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.registry
def test_modals_own_client_asks_for_the_image_the_gpu_and_the_time(modal_programs, tmp_path):
    found = run_modal(modal_programs, tmp_path)
    requests = found["requests"]
    [function] = [body["function"] for name, body in requests if name == "FunctionCreate"]
    assert function["resources"] == {"milliCpu": 4000, "gpuConfig": {"count": 1, "gpuType": "H100"}}
    assert function["timeoutSecs"] == 600 * 60 + 60
    assert "retries" not in function["retryPolicy"]  # none
    built = [line for _, body in requests for line in body.get("image", {}).get("dockerfileCommands", ())]
    assert {"RUN apt-get install -y git bubblewrap", f"RUN python -m pip install loopty=={__version__}"} < {*built}
    secrets = [body["envDict"] for name, body in requests if name == "SecretGetOrCreate"]
    assert secrets == [{"LOOPTY_WORKER_URL": URL}]
    assert "secret@driver" not in json.dumps([body for name, body in requests if name != "SecretGetOrCreate"])
    [app] = [body for name, body in requests if name == "AppCreate"]
    assert app["appState"] == "APP_STATE_EPHEMERAL"
    assert requests[-1][0] == "AppClientDisconnect"
    assert found["said"].strip() == "no driver came back for 120 s"


@pytest.mark.registry
def test_a_container_that_is_no_longer_wanted_ends_with_its_app(modal_programs, tmp_path):
    requests = run_modal(modal_programs, tmp_path, "--endless")["requests"]
    assert requests[-1][0] == "AppClientDisconnect"
    assert requests[-1][1]["reason"] == "APP_DISCONNECT_REASON_KEYBOARD_INTERRUPT"
