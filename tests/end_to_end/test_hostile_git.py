"""No program that a stranger's files choose is run by git: filters, textconv, external diff, fsmonitor, hooks."""

import os
import subprocess

import pytest

from .conftest import CODE_TASK, NUMBER_BENCH, Place

ATTRIBUTES = "* filter=spy diff=spy merge=spy\n.gitattributes -filter\n"


class Spy:
    """Programs of the user's git configuration that leave a mark when they run."""

    def __init__(self, home, monkeypatch):
        self._mark, self._environ = home / "ran", {**os.environ, "HOME": str(home)}
        home.mkdir()
        spy = home / "spy"
        spy.write_text(f'#!/bin/sh\necho "$0 $*" >> {self._mark}\ncat "${{1:-/dev/stdin}}" 2>/dev/null || cat\n')
        spy.chmod(0o755)
        (home / ".gitconfig").write_text(
            f'[filter "spy"]\n clean = {spy}\n smudge = {spy}\n required = true\n'
            f'[diff "spy"]\n textconv = {spy}\n command = {spy}\n[diff]\n external = {spy}\n'
            f'[merge "spy"]\n driver = {spy}\n[core]\n fsmonitor = {spy}\n hooksPath = {home}/hooks\n'
            f"[uploadpack]\n packObjectsHook = {spy}\n[user]\n name = u\n email = u@x\n"
        )
        (home / "hooks").mkdir()
        for hook in ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"):
            (home / "hooks" / hook).symlink_to(spy)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def has_run(self) -> bool:
        """Whether a program ran since the last question."""
        ran = self._mark.exists()
        self._mark.unlink(missing_ok=True)
        return ran

    def git(self, place: Place, *args: str) -> None:
        """What git itself does with the user's configuration."""
        subprocess.run(["git", *args], cwd=place.top, env=self._environ, capture_output=True)


@pytest.fixture
def artifact(place, tmp_path):
    """An artifact of a stranger, whose files choose programs."""
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write(".gitattributes", ATTRIBUTES)
    place.write("loopty.toml", CODE_TASK.format(attempts=8))
    place.commit()
    place.loopty("run", "1")
    node = place.json("new", "--parent", "1")
    (place.top / ".loopty/drafts" / node["node"] / "src/x.txt").write_text("7\n")
    place.loopty("run", node["node"])
    place.loopty("export", node["node"], "--to", str(tmp_path / "w"))
    return tmp_path / "w"


@pytest.mark.parametrize("keep", [(), ("--keep", "kept")])
def test_a_replayed_artifact_chooses_no_program(artifact, tmp_path, monkeypatch, keep):
    elsewhere = Place(tmp_path / "elsewhere")
    elsewhere.top.mkdir()
    spy = Spy(tmp_path / "home", monkeypatch)
    assert "reproduced" in elsewhere.loopty("replay", str(artifact), *keep).stdout
    assert not spy.has_run()
    elsewhere.git("init", "-q", "trap")
    trap = Place(elsewhere.top / "trap")
    trap.write(".gitattributes", ATTRIBUTES)
    trap.write("a", "1")
    spy.git(trap, "add", ".")
    assert spy.has_run(), "the trap itself does not work"


@pytest.fixture
def candidate(code_place):
    """A node whose candidate wrote `.gitattributes`."""
    code_place.write("loopty.toml", CODE_TASK.format(attempts=8).replace('"src/**"', '"src/**", ".gitattributes"'))
    code_place.commit()
    code_place.loopty("run", "1")
    made = code_place.json("new", "--parent", "1")
    folder = code_place.top / ".loopty/drafts" / made["node"]
    (folder / "src/x.txt").write_text("7\n")
    (folder / ".gitattributes").write_text(ATTRIBUTES)
    code_place.loopty("run", made["node"])
    return code_place


def test_a_candidates_attributes_choose_no_program(candidate, tmp_path, monkeypatch):
    spy = Spy(tmp_path / "home", monkeypatch)
    made = candidate.json("new", "--parent", "1.1")
    (candidate.top / ".loopty/drafts" / made["node"] / "src/x.txt").write_text("8\n")
    for args in (
        ("run", made["node"], "--check"),
        ("run", made["node"]),
        ("replay", "1.1"),
        ("diff", "1.1"),
        ("show", "1.1"),
        ("export", "1.1"),
        ("apply", "1.1"),
        ("optimize",),
    ):
        candidate.loopty(*args)
        assert not spy.has_run(), args
    refused = candidate.loopty("apply", "1.1", "--patch", code=2)
    assert ".gitattributes" in refused.stderr
    assert not spy.has_run()
    assert not (candidate.top / ".gitattributes").exists()
    candidate.loopty("branch", "1.1")
    assert not spy.has_run()
    spy.git(candidate, "checkout", "-q", "loopty-1.1")
    assert spy.has_run(), "the trap itself does not work"


def test_a_repository_with_a_hostile_configuration_runs_no_monitor_hook_or_diff(code_place, tmp_path, monkeypatch):
    """As from a tarball, which brings `.git/config` and hooks: only filters of the user's own commits may run."""
    spy = Spy(tmp_path / "home", monkeypatch)
    config = (tmp_path / "home/.gitconfig").read_text()
    (tmp_path / "home/.gitconfig").write_text("[user]\n name = u\n email = u@x\n")
    with (code_place.top / ".git/config").open("a") as file:
        file.write(config)
    code_place.write("src/x.txt", "6\n")
    for args in (
        ("run", "1"),
        ("new", "--parent", "1"),
        ("diff", "1.1"),
        ("status",),
        ("optimize",),
        ("apply", "best"),
    ):
        code_place.loopty(*args, code=None)
        assert not spy.has_run(), args
    spy.git(code_place, "status")
    assert spy.has_run(), "the trap itself does not work"
