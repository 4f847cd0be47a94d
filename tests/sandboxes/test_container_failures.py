"""Engines that fail, hang, lie or are absent, played by a program that starts real processes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Protection, SandboxError, Stop
from loopty.sandboxes.container import Container

# Its containers are files that hold what `inspect` tells, and processes that outlive the program.
ENGINE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path

home = Path(__file__).parent
kept = home / "containers"
words = [word for word in sys.argv[1:] if word != "--log-level=error"]
with (home / "asked").open("a") as log:
    print(json.dumps({"words": words, "environment": dict(os.environ)}), file=log)


def fail(code, message):
    print(message, file=sys.stderr)
    raise SystemExit(code)


def keep(name, started="2026-01-01T00:00:00Z", code=0, oom=False, pid=0):
    state = {"StartedAt": started, "ExitCode": code, "OOMKilled": oom, "Pid": pid}
    (kept / name).write_text(json.dumps(state))


def remove(name, force):
    file = kept / name
    if not file.exists():
        fail(1, f"Error: no container {name}")
    if pid := json.loads(file.read_text())["Pid"]:
        if not force:
            fail(2, f"Error: container {name} is running")
        os.killpg(pid, signal.SIGKILL)
    file.unlink()


def run(name):
    play, _, rest = (home / "play").read_text().partition(" ")
    if play == "refuse":
        fail(125, rest)
    if play == "break":
        keep(name, started="0001-01-01T00:00:00Z")
        fail(126, rest)
    if play == "end":
        keep(name, code=int(rest))
        fail(int(rest), "the command's own words")
    if play == "starve":
        keep(name, code=137, oom=True)
        fail(137, "")
    if play == "answer":
        keep(name)
        print("answer to", sys.stdin.readline().strip(), flush=True)
        return
    if play == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("begun", flush=True)
    inside = ["/bin/sh", "-c", f"sleep 1000; : {rest}"]
    # As engines do: what they have started is on record before they go.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    process = subprocess.Popen(inside, stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
    keep(name, pid=process.pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if play != "desert":
        process.wait()


options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
match words:
    case ["info", *_]:
        answer = (home / "info").read_text()
        print(answer) if answer.startswith("{") else fail(1, answer)
    case ["image", "inspect", *_, name]:
        print("sha256:1234 null") if name == "here" else fail(125, f"Error: {name}: image not known")
    case ["inspect", *_, name]:
        print((kept / name).read_text()) if (kept / name).exists() else fail(125, "Error: no such object")
    case ["ps", *_]:
        prefix = words[words.index("--filter") + 1].removeprefix("name=^")
        print(*(file.name for file in kept.iterdir() if file.name.startswith(prefix)), sep="\\n")
    case ["rm", *rest]:
        for name in (word for word in rest if not word.startswith("--")):
            remove(name, "--force" in rest)
    case ["run", *_]:
        run(options["name"])
"""

PODMAN = (
    '{"host": {"security": {"rootless": false, "seccompEnabled": true}, "cgroupControllers": ["memory", "pids"]}}'
)
BARE = '{"SecurityOptions": ["name=rootless"]}'
DOCKER = '{"MemoryLimit": true, "PidsLimit": true, "SecurityOptions": ["name=seccomp,profile=builtin"]}'


@dataclass(frozen=True)
class Played:
    """An engine that plays what it is told to."""

    home: Path

    @property
    def program(self) -> str:
        return str(self.home / "podman")

    def plays(self, play: str) -> None:
        (self.home / "play").write_text(play)

    def says_of_itself(self, info: str) -> None:
        (self.home / "info").write_text(info)

    @property
    def containers(self) -> list[str]:
        return [file.name for file in (self.home / "containers").iterdir()]

    @property
    def asked(self) -> str:
        return (self.home / "asked").read_text()


@pytest.fixture
def engine(tmp_path: Path) -> Played:
    played = Played(tmp_path.resolve() / "engine")
    (played.home / "containers").mkdir(parents=True)
    played.says_of_itself(PODMAN)
    Path(played.program).write_text(f"#!{sys.executable} -IS\n{ENGINE}")
    Path(played.program).chmod(0o755)
    return played


@pytest.fixture
def place(engine, place_of):
    return place_of(Container(engine.program, "here", False))


@pytest.mark.parametrize("code", [0, 1, 7, 125, 126, 127, 143])
async def test_any_code_of_the_command_is_its_own(engine, place, code):
    engine.plays(f"end {code}")
    ran = await place.run(place.launch("command"))
    assert (ran.exit.code, ran.exit.stop) == (code, None)
    assert engine.containers == []


@pytest.mark.parametrize("play", ["refuse", "break"])
async def test_an_engine_that_starts_nothing_is_not_a_failed_command(engine, place, play):
    engine.plays(f"{play} Error: workdir does not exist")
    with pytest.raises(SandboxError, match="podman failed: Error: workdir does not exist"):
        await place.run(place.launch("command"))
    assert engine.containers == []


async def test_an_engine_that_leaves_its_container_is_not_a_command_that_succeeded(engine, place, alive):
    engine.plays("desert deserted-token")
    with pytest.raises(SandboxError, match="left before its container ended"):
        await place.run(place.launch("command"))
    assert engine.containers == alive("deserted-token") == []


async def test_what_the_kernel_killed_for_its_memory_is_told(engine, place):
    engine.plays("starve")
    ran = await place.run(place.launch("command"))
    assert (ran.exit.code, ran.exit.stop) == (137, Stop.MEMORY)


async def test_a_container_dies_when_its_time_is_up(engine, place, alive, bounded):
    engine.plays("hang timed-token")
    ran = await place.run(place.launch("command", bounds=bounded(seconds=1)))
    assert (ran.exit.code, ran.exit.stop) == (137, Stop.TIME)
    assert engine.containers == alive("timed-token") == []


async def test_a_container_dies_with_an_engine_that_does_not_listen(engine, place, alive, bounded, monkeypatch):
    monkeypatch.setattr("loopty.sandboxes.container._LEAVING_SECONDS", 0.2)
    engine.plays("deaf deaf-token")
    ran = await place.run(place.launch("command", bounds=bounded(seconds=1)))
    assert ran.exit.stop is Stop.TIME
    assert engine.containers == alive("deaf-token") == alive(f"source={place.tree}") == []


async def test_a_container_dies_when_it_is_cancelled(engine, place, alive):
    engine.plays("hang cancelled-box")
    cancel = asyncio.Event()
    asyncio.get_running_loop().call_later(0.5, cancel.set)
    assert (await place.run(place.launch("command"), cancel)).exit.stop is Stop.CANCELLED
    assert engine.containers == alive("cancelled-box") == []


@pytest.mark.parametrize("delay", [0, 0.2, 1])
async def test_a_container_dies_when_its_task_is_cancelled(engine, place, alive, delay):
    box = f"task-box-{os.getpid()}"  # the other delays may be tried beside this one
    engine.plays(f"hang {box}")
    task = asyncio.create_task(place.run(place.launch("command")))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.containers == alive(box) == []


async def test_a_channel_is_the_standard_input_and_output_of_the_engine(engine, place):
    engine.plays("answer")
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(b"question\n")
        launch = place.launch("command", channel=theirs.detach())
        assert (await place.sandbox.run(launch, asyncio.Event())).code == 0
        assert ours.makefile("rb").read() == b"answer to question\n"


async def test_the_engine_gets_the_trials_variables_and_little_of_ours(engine, place, monkeypatch):
    monkeypatch.setenv("OUR_SECRET", "ours")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/our/run")
    engine.plays("end 0")
    variables = {"THEIR_SECRET": "theirs", "XDG_RUNTIME_DIR": "/their/run", "GODEBUG": "theirs"}
    await place.run(place.launch("command", env=variables))
    assert '"THEIR_SECRET": "theirs"' in engine.asked
    assert '"XDG_RUNTIME_DIR": "/our/run"' in engine.asked
    assert "OUR_SECRET" not in engine.asked
    assert '"GODEBUG":' not in engine.asked


async def test_an_image_that_is_not_here_is_told_with_its_remedy(engine, place_of):
    place = place_of(Container(engine.program, "absent:1", False))
    with pytest.raises(SandboxError, match=r"absent:1: image not known; fetch it first: podman pull absent:1"):
        await place.run(place.launch("command"))


@pytest.mark.parametrize("said", ["{}", '{{"ServerErrors": ["{}"]}}'])
async def test_a_daemon_that_does_not_run_is_told_with_its_remedy(engine, place, said):
    engine.says_of_itself(said.format("Cannot connect to the Docker daemon at unix:///run/docker.sock."))
    with pytest.raises(SandboxError, match="systemctl start docker"):
        await place.run(place.launch("command"))
    assert place.sandbox.gaps == ()


async def test_gpus_that_the_engine_does_not_know_are_told_with_their_remedy(engine, place):
    engine.plays("break Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all")
    with pytest.raises(SandboxError, match="nvidia-ctk cdi generate"):
        await place.run(place.launch("command"))


@pytest.mark.parametrize("name", ["auto", "podman"])
async def test_a_missing_engine_is_told_with_its_remedy(place_of, monkeypatch, name):
    monkeypatch.setenv("PATH", "")
    place = place_of(Container(name, "here", False))
    with pytest.raises(SandboxError, match="is not installed: apt install podman"):
        await place.run(place.launch("command"))


def test_podman_comes_before_docker(engine, monkeypatch, tmp_path):
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{engine.home}")
    assert Container("auto", "here", False).gaps != ()


def protections(container: Container) -> set[Protection]:
    return {gap.protection for gap in container.gaps}


def test_what_an_engine_cannot_bound_is_a_gap(engine):
    assert protections(Container(engine.program, "here", False)) == {Protection.CALLS}
    engine.says_of_itself(DOCKER)
    assert protections(Container(engine.program, "here", False)) == {Protection.CALLS}
    engine.says_of_itself(BARE)
    bare = {Protection.CALLS, Protection.FORKS, Protection.MEMORY}
    assert protections(Container(engine.program, "here", False)) == bare


async def test_a_docker_without_privileges_runs_a_trial_as_its_root_who_is_the_user(engine, place):
    engine.says_of_itself(BARE)
    engine.plays("end 0")
    await place.run(place.launch("command"))
    assert "--user=0:0" in engine.asked


PARENT = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from loopty.domain.launch import Bounds, Launch
    from loopty.sandboxes.container import Container

    root = Path(sys.argv[1])
    bounds = Bounds(seconds=1000, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
    launch = Launch(("command",), "/", bounds, root / "out", root / "err")
    asyncio.run(Container(sys.argv[2], "here", False).run(launch, asyncio.Event()))
""")


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def killed_parent(engine: Played, root: Path) -> None:
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent), "PATH": os.defpath}
    command = [sys.executable, "-c", PARENT, str(root), engine.program]
    parent = subprocess.Popen(command, env=environment)
    out = root / "out"
    until(lambda: out.exists() and out.read_text() and engine.containers)
    parent.kill()
    assert parent.wait() == -signal.SIGKILL


def test_a_container_dies_when_loopty_is_killed(engine, tmp_path, alive):
    engine.plays("hang orphan-box")
    killed_parent(engine, tmp_path)
    until(lambda: engine.containers == alive("orphan-box") == [])


async def test_the_next_start_sweeps_what_a_dead_loopty_left_and_nothing_else(engine, place):
    engine.plays("end 0")
    ours = Path("/proc/self/ns/pid").stat().st_ino
    first = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    living = {f"loopty-{ours}-1-{first}-a", f"loopty-{ours}-by-hand", "loopty-1-1-1-a", "somebody-else"}
    for name in (*living, f"loopty-{ours}-1-999999999-a", f"loopty-{ours}-4194305-1-a"):
        (engine.home / "containers" / name).write_text('{"Pid": 0}')
    await place.run(place.launch("command"))
    assert set(engine.containers) == living


async def test_the_watcher_goes_with_its_sandbox(engine, place_of, alive):
    engine.plays("end 0")
    place = place_of(Container(engine.program, "here", False))
    await place.run(place.launch("command"))
    assert len(alive(engine.program)) == 1
    del place
    gc.collect()
    until(lambda: alive(engine.program) == [])
