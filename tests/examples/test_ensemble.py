"""The example of the second stage: a blend of classifiers beats each of them, also on rows that nobody saw."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "ensemble"
GIT = ("-c", "user.name=user", "-c", "user.email=user@example.org")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensemble") / "repository"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    task = folder / "loopty.toml"
    task.write_text(task.read_text().replace("attempts = 24", "attempts = 14"))
    for args in (("init", "-q"), ("add", "-A"), (*GIT, "commit", "-q", "-m", "Start")):
        subprocess.run(["git", *args], cwd=folder, check=True)
    run(folder, "optimize", "--quiet")
    return folder


def run(folder, *args):
    command = [sys.executable, "-m", "loopty.cli.main", *args]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_blend_is_better_than_the_best_classifier(repository):
    search, blends = (json.loads(run(repository, "status", "--run", number, "--json")) for number in "12")
    assert [count["started"] for count in search["counts"] if count["pool"] == "attempt"] == [14]
    assert [count["started"] for count in blends["counts"] if count["pool"] == "attempt"] == [14]
    assert blends["best"]["score"] > search["best"]["score"]
    assert len(blends["combines"]["members"]) == 4


def test_the_stage_shows_its_several_parents(repository):
    root = json.loads(run(repository, "show", "2", "--json"))
    assert len(root["merged"]) == 4
    assert all(node.startswith("1") for node in root["merged"])
    assert "merges" in run(repository, "show", "2")
    assert "combines" in run(repository, "status")


def test_a_member_has_its_artifacts_by_digest(repository):
    member = json.loads(run(repository, "show", "2", "--json"))["merged"][0]
    shown = json.loads(run(repository, "show", member, "--json"))
    assert list(shown["outcome"]["artifacts"]) == ["predictions.json"]
    assert "predictions.json" in run(repository, "show", member)


def test_running_it_again_goes_on_where_it_was(repository):
    again = json.loads(run(repository, "optimize", "--quiet", "--json"))
    assert again["run"] == 2
    assert again["reason"] == "all 14 attempt trials are spent"


def test_a_blend_can_be_measured_again(repository):
    assert json.loads(run(repository, "replay", "best", "--json"))["same"] is True
