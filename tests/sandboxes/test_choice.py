"""Which sandbox is chosen, and the message when none will do."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from loopty.domain.launch import Bounds, Launch, Protection, SandboxError
from loopty.domain.task import SandboxSpec
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.sandboxes import choice
from loopty.sandboxes.landlock import order
from loopty.sandboxes.probe import ProbeReport

try:
    LANDLOCK = order.version()
except OSError:
    LANDLOCK = 0


def forbid_namespaces(monkeypatch):
    """Let the launcher fail as where the kernel denies user namespaces to this program."""
    refusal = ProbeReport("namespaces", "Operation not permitted", ())
    real = choice._probe_with_cache
    monkeypatch.setattr(
        choice, "_probe_with_cache", lambda kind, *rest: refusal if kind == "namespaces" else real(kind, *rest)
    )


def test_namespaces_come_first():
    assert choice.choose_sandbox(SandboxSpec()).name == "namespaces"


def test_bubblewrap_comes_second(monkeypatch):
    forbid_namespaces(monkeypatch)
    assert choice.choose_sandbox(SandboxSpec()).name == "bubblewrap"


@pytest.mark.skipif(LANDLOCK < order.SCOPES_VERSION, reason="no Landlock, or an old one")
def test_landlock_comes_third(monkeypatch):
    forbid_namespaces(monkeypatch)
    monkeypatch.setenv("PATH", "")
    sandbox = choice.choose_sandbox(SandboxSpec())
    assert sandbox.name == "landlock"
    assert [gap.protection for gap in sandbox.gaps] == [Protection.CALLS]


def test_the_chosen_sandbox_runs_trials(tmp_path):
    sandbox = choice.choose_sandbox(SandboxSpec())
    bounds = Bounds(seconds=30, memory_mb=256, processes=8, output_mb=1, disk_mb=8)
    launch = Launch(("/bin/sh", "-c", "exit 3"), "/", bounds, tmp_path / "out", tmp_path / "err")
    assert asyncio.run(sandbox.run(launch, asyncio.Event())).code == 3


async def test_a_sandbox_can_be_chosen_from_within_an_event_loop():
    assert choice.choose_sandbox(SandboxSpec(kind="bubblewrap")).name == "bubblewrap"


def test_when_no_sandbox_will_do_the_message_has_every_reason_and_the_way_out(monkeypatch):
    forbid_namespaces(monkeypatch)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxError) as error:
        choice.choose_sandbox(SandboxSpec(require=tuple(Protection)))
    message = str(error.value)
    assert "namespaces: Operation not permitted" in message
    assert "bubblewrap: bwrap is not installed: apt install bubblewrap" in message
    assert "landlock: " in message
    assert "container: neither podman nor docker is installed" in message
    assert "--unsafe-no-sandbox" in message


def test_a_named_kind_without_a_required_protection_is_refused():
    with pytest.raises(SandboxError, match="landlock: ") as error:
        choice.choose_sandbox(SandboxSpec(kind="landlock", require=tuple(Protection)))
    assert "bubblewrap" not in str(error.value)


def test_the_message_on_macos_says_what_is_needed():
    with pytest.raises(SandboxError, match="Linux virtual machine") as error:
        choice.choose_sandbox(SandboxSpec(), system="darwin")
    assert "no Seatbelt back end" in str(error.value)
    assert {back_end.probe.ok for back_end in choice.back_ends(SandboxSpec(), system="darwin")} == {False}


def test_the_report_of_a_probe_is_cached(tmp_path):
    cache = SafeFolder(tmp_path).file("probes.json")
    choice.choose_sandbox(SandboxSpec(), cache)
    known = json.loads(cache.read())
    known["namespaces"]["probe"]["gaps"] = [{"protection": "calls", "words": "from the cache"}]
    cache.write(json.dumps(known).encode())
    assert [gap.words for gap in choice.choose_sandbox(SandboxSpec(), cache).gaps] == ["from the cache"]


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"namespaces": 3}', '{"namespaces": {"key": "stale"}}'])
def test_a_stale_or_broken_cache_is_ignored(tmp_path, text):
    cache = SafeFolder(tmp_path).file("probes.json")
    cache.write(text.encode())
    assert choice.choose_sandbox(SandboxSpec(), cache).gaps == ()
    assert json.loads(cache.read())["namespaces"]["probe"]["name"] == "namespaces"


def test_a_problem_is_not_cached(tmp_path, monkeypatch):
    cache = SafeFolder(tmp_path).file("probes.json")
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxError):
        choice.choose_sandbox(SandboxSpec(kind="bubblewrap"), cache)
    monkeypatch.setenv("PATH", path)
    assert choice.choose_sandbox(SandboxSpec(kind="bubblewrap"), cache).name == "bubblewrap"


def test_a_cache_that_cannot_be_written_is_no_problem(tmp_path):
    (tmp_path / "file").touch()
    cache = SafeFolder(tmp_path, ("file",)).file("probes.json")
    assert choice.choose_sandbox(SandboxSpec(), cache).name == "namespaces"


def test_the_image_is_part_of_the_cache_key():
    spec = SandboxSpec(image="one")
    assert choice._cache_key(spec) != choice._cache_key(replace(spec, image="other"))
