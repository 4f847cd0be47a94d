"""Which sandbox is taken, and what is said when none will do."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os

import pytest

from loopty.domain.launch import Bounds, Launch, Protection, SandboxError
from loopty.domain.task import SandboxSpec
from loopty.sandboxes import choice
from loopty.sandboxes.landlock_supervisor import landlock_domain

try:
    LANDLOCK = landlock_domain.version()
except OSError:
    LANDLOCK = 0


def test_bubblewrap_comes_first():
    assert choice.choose_sandbox(SandboxSpec()).name == "bubblewrap"


@pytest.mark.skipif(LANDLOCK < landlock_domain.SCOPES_VERSION, reason="no Landlock, or an old one")
def test_landlock_comes_second(monkeypatch):
    monkeypatch.setenv("PATH", "")
    taken = choice.choose_sandbox(SandboxSpec())
    assert taken.name == "landlock"
    assert [gap.protection for gap in taken.gaps] == [Protection.CALLS]


def test_what_is_taken_runs_trials(tmp_path):
    sandbox = choice.choose_sandbox(SandboxSpec())
    bounds = Bounds(seconds=30, memory_mb=256, processes=8, output_mb=1, disk_mb=8)
    launch = Launch(("/bin/sh", "-c", "exit 3"), "/", bounds, tmp_path / "out", tmp_path / "err")
    assert asyncio.run(sandbox.run(launch, asyncio.Event())).code == 3


async def test_it_can_be_chosen_from_within_an_event_loop():
    assert choice.choose_sandbox(SandboxSpec(kind="bubblewrap")).name == "bubblewrap"


def test_when_none_will_do_each_is_told_with_its_reason_and_the_way_out(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxError) as told:
        choice.choose_sandbox(SandboxSpec(require=tuple(Protection)))
    message = str(told.value)
    assert "bubblewrap: bwrap is not installed: apt install bubblewrap" in message
    assert "landlock: " in message
    assert "container: neither podman nor docker is there" in message
    assert "--unsafe-no-sandbox" in message


def test_a_named_kind_that_lacks_something_required_stops():
    with pytest.raises(SandboxError, match="landlock: ") as told:
        choice.choose_sandbox(SandboxSpec(kind="landlock", require=tuple(Protection)))
    assert "bubblewrap" not in str(told.value)


def test_macos_is_told_plainly_what_it_takes():
    with pytest.raises(SandboxError, match="Linux virtual machine") as told:
        choice.choose_sandbox(SandboxSpec(), system="darwin")
    assert "no Seatbelt back end" in str(told.value)
    assert {candidate.probe.ok for candidate in choice.back_ends(SandboxSpec(), system="darwin")} == {False}


def test_what_was_found_is_remembered(tmp_path):
    cache = tmp_path / "probes.json"
    choice.choose_sandbox(SandboxSpec(), cache)
    known = json.loads(cache.read_text())
    known["bubblewrap"]["probe"]["gaps"] = [{"protection": "calls", "words": "from the cache"}]
    cache.write_text(json.dumps(known))
    assert [gap.words for gap in choice.choose_sandbox(SandboxSpec(), cache).gaps] == ["from the cache"]


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"bubblewrap": 3}', '{"bubblewrap": {"key": "stale"}}'])
def test_a_stale_or_broken_memory_is_passed_over(tmp_path, text):
    cache = tmp_path / "probes.json"
    cache.write_text(text)
    assert choice.choose_sandbox(SandboxSpec(), cache).gaps == ()
    assert json.loads(cache.read_text())["bubblewrap"]["probe"]["name"] == "bubblewrap"


def test_a_problem_is_not_remembered(tmp_path, monkeypatch):
    cache = tmp_path / "probes.json"
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxError):
        choice.choose_sandbox(SandboxSpec(kind="bubblewrap"), cache)
    monkeypatch.setenv("PATH", path)
    assert choice.choose_sandbox(SandboxSpec(kind="bubblewrap"), cache).name == "bubblewrap"


def test_a_memory_that_cannot_be_written_is_no_problem(tmp_path):
    assert choice.choose_sandbox(SandboxSpec(), tmp_path / "absent" / "probes.json").name == "bubblewrap"


def test_an_image_is_part_of_what_is_remembered():
    wanted = SandboxSpec(image="one")
    assert choice._cache_key(wanted) != choice._cache_key(dataclasses.replace(wanted, image="other"))
