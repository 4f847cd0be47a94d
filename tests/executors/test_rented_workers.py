"""Machines that are rented for workers: what SkyPilot and Modal are asked for, offline, by the real libraries."""

import importlib.util

import pytest

from loopty.domain.errors import Misuse
from loopty.executors.cluster_spec import ClusterSpec
from loopty.executors.rented_workers import (
    modal_function,
    requirement,
    run_modal_container,
    run_sky_worker,
    sky_task,
    worker_line,
)

URL = "loopty://secret@driver:7700/?certificate=" + "a" * 64


def test_a_worker_on_a_rented_machine_ends_without_a_driver_and_when_its_time_is_over():
    spec = ClusterSpec.parse("sky:aws?workers=2&minutes=30&gpus=H100:1&spot=yes")
    assert spec.workers == 2
    assert worker_line(spec) == "timeout 1800 loopty worker --trust --patience 120"


def test_what_is_installed_there_can_be_said():
    assert requirement(ClusterSpec.parse("modal:?install=git%2Bhttps://example.org/loopty")).startswith(
        "git+https"
    )
    assert requirement(ClusterSpec.parse("sky:")).startswith("loopty==")


def test_an_option_of_another_scheduler_is_refused_with_those_that_there_are():
    with pytest.raises(Misuse, match=r"spot=…"):
        ClusterSpec.parse("sky:aws?folder=/x")


@pytest.mark.parametrize(("kind", "run"), [("sky", run_sky_worker), ("modal", run_modal_container)])
async def test_without_the_library_the_error_says_what_to_install(kind, run):
    if importlib.util.find_spec(kind):
        pytest.skip(f"{kind} is installed")
    with pytest.raises(Misuse, match=rf"pip install 'loopty\[{kind}\]'"):
        await run(ClusterSpec.parse(f"{kind}:"), URL)


def test_skypilot_gets_a_task_whose_machine_ends_by_itself():
    sky = pytest.importorskip("sky")
    spec = ClusterSpec.parse("sky:aws?gpus=H100:1&cpus=4%2B&spot=yes")
    config = sky_task(sky, spec, URL).to_yaml_config()
    assert config["resources"]["autostop"] == {"idle_minutes": 5, "down": True}
    assert (config["resources"]["accelerators"], config["resources"]["infra"]) == ({"H100": 1}, "aws")
    assert URL not in config["run"] + config["setup"]
    assert config["secrets"] == {"LOOPTY_WORKER_URL": URL}


async def test_modal_gets_a_function_and_without_a_login_the_error_says_how_to_log_in(monkeypatch, tmp_path):
    modal = pytest.importorskip("modal")
    monkeypatch.setenv("HOME", str(tmp_path))
    spec = ClusterSpec.parse("modal:?gpus=H100&minutes=30")
    app, function = modal_function(modal, spec, URL)
    assert app.name == "loopty-workers"
    assert isinstance(function, modal.Function)
    with pytest.raises(Misuse, match="modal setup"):
        await run_modal_container(spec, URL)
