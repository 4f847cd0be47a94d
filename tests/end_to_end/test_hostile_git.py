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
    place.loopty("export", "node", node["node"], "--to", str(tmp_path / "w"))
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
        ("export", "node", "1.1"),
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


@pytest.fixture
def archive(code_place, tmp_path, monkeypatch):
    """A repository that came as an archive: its configuration chooses programs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    spy = Spy(tmp_path / "home", monkeypatch)
    (tmp_path / "home/.gitconfig").rename(tmp_path / "home/theirs")
    (tmp_path / "home/.gitconfig").write_text("[user]\n name = u\n email = u@x\n")
    return Archive(code_place, spy, tmp_path / "home")


class Archive:
    def __init__(self, place, spy, home):
        self.place, self.spy, self.home = place, spy, home

    def configure(self, text, folder=""):
        with (self.place.top / folder / ".git/config").open("a") as file:
            file.write(text.replace("SPY", str(self.home / "spy")))

    def attributes(self, folder=""):
        (self.place.top / folder / ".git/info").mkdir(exist_ok=True)
        (self.place.top / folder / ".git/info/attributes").write_text("* filter=spy\n")


VERBS = (
    ("run", "1"),
    ("run", "1", "--check"),
    ("new", "--parent", "1"),
    ("new",),
    ("diff", "1"),
    ("status",),
    ("optimize",),
    ("replay", "1"),
    ("rebaseline",),
    ("gate", "check", "1"),
    ("export", "node", "1"),
    ("apply", "best"),
    ("apply", "best", "--patch"),
    ("show", "1"),
    ("trust",),
    ("doctor",),
)


def test_a_repository_with_a_hostile_configuration_runs_no_monitor_hook_or_diff(archive):
    """As from a tarball, which brings `.git/config` and hooks."""
    text = (archive.home / "theirs").read_text()
    archive.configure(text[text.index("[diff ") :])
    archive.place.write("src/x.txt", "6\n")
    for args in VERBS:
        archive.place.loopty(*args, code=None)
        assert not archive.spy.has_run(), args
    archive.spy.git(archive.place, "status")
    assert archive.spy.has_run(), "the trap itself does not work"


FILTER = '[filter "spy"]\n clean = SPY\n smudge = SPY\n'


@pytest.mark.parametrize("where", ["config", "include", "worktree"])
def test_a_filter_of_the_repository_s_own_configuration_needs_a_yes(archive, where):
    place = archive.place
    place.loopty("run", "1")
    archive.attributes()
    if where == "include":
        (place.top / ".git/more").write_text(FILTER.replace("SPY", str(archive.home / "spy")))
        archive.configure("[include]\n path = more\n")
    elif where == "worktree":
        (place.top / ".git/config.worktree").write_text(FILTER.replace("SPY", str(archive.home / "spy")))
        place.git("config", "core.repositoryFormatVersion", "1")
        place.git("config", "extensions.worktreeConfig", "true")
    else:
        archive.configure(FILTER)
    place.write("src/x.txt", "6\n")
    archive.spy.has_run()
    for args in VERBS:
        place.loopty(*args, code=None)
        assert not archive.spy.has_run(), args
    refused = place.loopty("new", code=2).stderr
    assert f"git to use '{archive.home}/spy' (git config filter.spy.clean)" in refused
    assert "else edit .git/config" in refused
    place.loopty("trust", "--yes")
    place.loopty("optimize")
    assert archive.spy.has_run(), "what the user allows is used"


def test_init_allows_the_task_but_not_the_configuration(archive):
    archive.attributes()
    archive.configure(FILTER)
    archive.place.git("rm", "-q", "--cached", "loopty.toml")
    (archive.place.top / "loopty.toml").unlink()
    archive.spy.has_run()
    done = archive.place.loopty("init", "--command", "sh bench.sh", "--write", "src/**", code=2)
    assert "git config filter.spy.clean" in done.stderr
    assert not archive.spy.has_run()


def test_filters_of_a_submodule_never_run(archive):
    place = archive.place
    place.git("init", "-q", "sub")
    Place(place.top / "sub").write("a", "1\n")
    Place(place.top / "sub").commit()
    place.commit("with a submodule")
    archive.attributes("sub")
    archive.configure(FILTER, "sub")
    place.write("sub/a", "2\n")
    for args in VERBS:
        place.loopty(*args, code=None)
        assert not archive.spy.has_run(), args
    archive.spy.git(place, "add", "--all")
    assert archive.spy.has_run(), "the trap itself does not work"


def test_a_moved_submodule_is_part_of_the_baseline(archive):
    place = archive.place
    sub = Place(place.top / "sub")
    place.git("init", "-q", "sub")
    sub.commit()
    place.commit("with a submodule")
    sub.commit("a later state")
    place.loopty("run", "1")
    baseline = place.history()["1"].commit
    assert place.git("rev-parse", f"{baseline}:sub") == sub.git("rev-parse", "HEAD")


PARTIAL = """
[core]
 sshCommand = SPY /dev/null
[remote "origin"]
 url = ssh://nowhere.invalid/x
 promisor = true
 partialCloneFilter = blob:none
[extensions]
 partialClone = origin
"""


def test_a_partial_clone_fetches_nothing_without_a_yes(archive):
    place = archive.place
    place.loopty("run", "1")
    blob = place.git("rev-parse", "HEAD:src/x.txt").strip()
    (place.top / ".git/objects" / blob[:2] / blob[2:]).unlink()
    place.git("config", "core.repositoryFormatVersion", "1")
    archive.configure(PARTIAL)
    for args in VERBS:
        done = place.loopty(*args, code=None)
        assert not archive.spy.has_run(), args
        assert "Traceback" not in done.stderr
    assert "git config core.sshcommand" in place.loopty("replay", "1", code=2).stderr
    archive.spy.git(place, "cat-file", "blob", blob)
    assert archive.spy.has_run(), "the trap itself does not work"


def test_a_configuration_cannot_name_another_working_tree(archive, tmp_path):
    place = archive.place
    place.git("config", "core.worktree", str(tmp_path))
    (tmp_path / "loopty.toml").write_text(CODE_TASK.format(attempts=2))
    for args in VERBS:
        assert "core.worktree" in place.loopty(*args, code=None).stderr or args == ("doctor",), args
    assert not (tmp_path / ".loopty").exists()


def test_a_bare_repository_among_the_files_of_a_clone_is_not_used(archive):
    place = archive.place
    place.git("init", "-q", "--bare", "docs")
    Place(place.top / "docs").git("config", "core.bare", "false")
    Place(place.top / "docs").git("config", "core.worktree", str(place.top / "docs"))
    assert "safe.bareRepository" in Place(place.top / "docs").loopty("run", "1", code=2).stderr


def test_a_submodule_and_a_working_tree_have_their_own_place(archive, tmp_path):
    place = archive.place
    place.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(place.top / ".git"), "sub")
    place.git("worktree", "add", "-q", str(tmp_path / "beside"))
    for top in (place.top / "sub", tmp_path / "beside"):
        Place(top).write("loopty.toml", CODE_TASK.format(attempts=2))
        Place(top).loopty("run", "1", code=None)
        assert (top / ".loopty").is_dir()
