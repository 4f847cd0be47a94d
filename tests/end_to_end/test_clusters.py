"""Workers that a scheduler places, as jobs through submitit."""

import importlib.util
import json
import subprocess
import sys

import pytest

from .conftest import ECHO_X, PARAMETER_TASK
from .test_workers import assert_sound

QUIET = "[noise]\nrepeat = 'never'\n"


def write_task(place, hosts):
    task = PARAMETER_TASK.format(attempts=4, command=json.dumps(f"sleep 0.2; {ECHO_X}"))
    place.write("loopty.toml", f"{task}[executor]\nkind = 'pool'\nhosts = {json.dumps(hosts)}\n{QUIET}")
    place.commit()


@pytest.mark.skipif(not importlib.util.find_spec("submitit"), reason="submitit is not installed")
def test_jobs_through_submitit_run_the_trials(place, tmp_path):
    write_task(place, [f"slurm:?workers=1&cluster=local&folder={tmp_path}/jobs"])
    done = subprocess.run(
        [sys.executable, "-m", "loopty", "optimize", "--listen", "127.0.0.1:0", "--quiet", "--json"],
        cwd=place.top,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert_sound(place, 4)


def test_a_cluster_needs_an_address_to_join_at(place):
    write_task(place, ["slurm:?workers=1"])
    assert "add --listen" in place.loopty("optimize", "--quiet", code=2).stderr
