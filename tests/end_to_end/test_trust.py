"""A stranger's task file gets nothing beyond the default until the user says yes."""

import os

import pytest

from .conftest import CODE_TASK, NUMBER_BENCH
from .serving import evolver, number, vendor
from .terminal import on_terminal

NETWORK = CODE_TASK.format(attempts=2).replace("timeout_seconds = 20", "timeout_seconds = 20\nnetwork = true")


@pytest.fixture
def stranger(code_place, monkeypatch, tmp_path):
    """A clone whose task file the user did not write."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (code_place.top / "loopty.toml").write_text(NETWORK)
    code_place.commit()
    return code_place


@pytest.mark.parametrize(
    "args",
    [
        ("optimize",),
        ("run", "1"),
        ("run", "1", "--check"),
        ("new",),
        ("new", "--parent", "1"),
    ],
)
def test_nothing_runs_before_the_user_says_yes(stranger, args):
    done = stranger.loopty(*args, code=2)
    assert "the network, and the services of this machine (benchmark.network)" in done.stderr
    assert "`loopty config trust`" in done.stderr
    assert not (stranger.top / ".loopty/trials").exists()
    assert not (stranger.top / ".loopty/exports").exists()


def test_verbs_that_measure_again_ask_too(stranger):
    stranger.loopty("run", "1", "--trust")
    stranger.loopty("trust", "--revoke")
    for args in (("replay", "1"), ("rebaseline",), ("gate", "check", "1"), ("optimize",)):
        assert "benchmark.network" in stranger.loopty(*args, code=2).stderr, args
    stranger.loopty("status")
    stranger.loopty("replay", "1", "--trust")
    stranger.loopty("replay", "1")


def test_the_flag_is_remembered_and_unrelated_edits_do_not_ask_again(stranger):
    stranger.loopty("run", "1", "--trust")
    stranger.loopty("run", "1", "--check")
    text = NETWORK.replace("attempts = 2", "attempts = 1")
    (stranger.top / "loopty.toml").write_text(text)
    stranger.loopty("run", "1", "--check")
    (stranger.top / "loopty.toml").write_text(
        text.replace("network = true", 'network = true\nmounts = ["/etc/ssl"]')
    )
    assert "/etc/ssl" in stranger.loopty("run", "1", "--check", code=2).stderr


def test_trust_shows_asks_lists_and_revokes(stranger):
    shown = stranger.loopty("trust", code=1)
    assert shown.stdout == "not allowed: the network, and the services of this machine (benchmark.network)\n"
    assert stranger.loopty("trust", "--list").stdout == ""
    stranger.loopty("trust", "--yes")
    assert stranger.json("trust")["trusted"] is True
    assert str(stranger.top) in stranger.loopty("trust", "--list").stdout
    assert stranger.json("trust", "--list")[0]["repository"] == os.path.realpath(stranger.top)
    stranger.loopty("trust", "--revoke")
    stranger.loopty("trust", code=1)


def test_a_terminal_is_asked_and_no_is_the_default(stranger):
    code, output = on_terminal(stranger, "run", "1", "--check", keys=b"\n")
    assert code == 2
    assert "the services of this machine" in output
    code, output = on_terminal(stranger, "run", "1", "--check", keys=b"y\n")
    assert code == 0, output
    stranger.loopty("run", "1", "--check")


def test_a_default_task_file_never_asks(code_place, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    code_place.loopty("run", "1")
    assert "nothing beyond the default" in code_place.loopty("trust").stderr
    assert not (tmp_path / "state").exists()


def test_what_init_writes_needs_no_trust(place, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.commit()
    place.loopty("init", "--command", "sh bench.sh", "--write", "src/x.txt")
    place.loopty("trust")


def test_a_strangers_model_is_not_called(stranger):
    with vendor(number(1)) as server:
        (stranger.top / "loopty.toml").write_text(CODE_TASK.format(attempts=1) + evolver(server))
        assert f"calls to openai:m-1 at {server.url}/v1" in stranger.loopty("optimize", code=2).stderr
        assert "(models.near)" in stranger.loopty("models", "--try", "near", code=2).stderr
        assert not server.requests
        stranger.loopty("trust", "--yes")
        stranger.loopty("models", "--try", "near", code=None)
        assert server.requests


def test_the_repository_cannot_bring_its_own_trust(stranger, monkeypatch, tmp_path):
    stranger.loopty("trust", "--yes")
    (permission,) = (tmp_path / "state/loopty/trusted").iterdir()
    for folder in (".loopty/trusted", ".local/state/loopty/trusted", "loopty/trusted"):
        stranger.write(f"{folder}/{permission.name}", permission.read_text())
    monkeypatch.setenv("XDG_STATE_HOME", ".local/state")  # a relative path is ignored
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    stranger.loopty("run", "1", code=2)


def test_doctor_says_what_is_not_allowed_and_tries_no_image_of_a_stranger(stranger):
    image = NETWORK + '[sandbox]\nkind = "container"\nimage = "strange"\nrequire = []\n'
    (stranger.top / "loopty.toml").write_text(image)
    shown = stranger.loopty("doctor", code=None).stdout
    assert "`loopty config trust`" in shown
    assert "kind = container" not in shown
    stranger.loopty("trust", "--yes")
    assert "kind = container" in stranger.loopty("doctor", code=None).stdout
