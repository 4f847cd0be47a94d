"""Engines that fail, hang, lie or are absent: a fake engine that starts real processes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Protection, SandboxError, Stop
from loopty.sandboxes.container.engine import find_program
from loopty.sandboxes.container.sandbox import Container
from loopty.testing.sandbox_harness import bounds_with, pids_with, wait_until

# Its containers are files with the answer to `inspect`, and processes that outlive the program.
ENGINE = """
import json, os, select, signal, subprocess, sys, time
from pathlib import Path

home = Path(__file__).parent
containers = home / "containers"
words = [word for word in sys.argv[1:] if word != "--log-level=error"]
with (home / "requests").open("a") as log:
    print(json.dumps({"words": words, "environment": dict(os.environ)}), file=log)


def fail(code, message):
    print(message, file=sys.stderr)
    raise SystemExit(code)


def record(name, started="2026-01-01T00:00:00Z", code=0, oom=False, pid=0):
    state = {"StartedAt": started, "ExitCode": code, "OOMKilled": oom, "Pid": pid}
    (containers / name).write_text(json.dumps(state))


def remove(name, force):
    file = containers / name
    if not file.exists():
        fail(1, f"Error: no container {name}")
    if pid := json.loads(file.read_text())["Pid"]:
        if not force:
            fail(2, f"Error: container {name} is running")
        process = os.pidfd_open(pid)
        os.killpg(pid, signal.SIGKILL)
        select.select([process], [], [])  # as real engines do: a killed process may take a while to die
    file.unlink()


def run(name):
    play, _, rest = (home / "play").read_text().partition(" ")
    if play == "refuse":
        fail(125, rest)
    if play == "break":
        record(name, started="0001-01-01T00:00:00Z")
        fail(126, rest)
    if play == "end":
        record(name, code=int(rest))
        fail(int(rest), "the command's own words")
    if play == "starve":
        record(name, code=137, oom=True)
        fail(137, "")
    if play == "answer":
        record(name)
        print("answer to", sys.stdin.readline().strip(), flush=True)
        return
    if play == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("begun", flush=True)
    inside = ["/bin/sh", "-c", f"sleep 1000; : {rest}"]
    # As real engines do: they record a container before they exit.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    process = subprocess.Popen(inside, stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
    record(name, pid=process.pid)
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
        file = containers / name
        print(file.read_text()) if file.exists() else fail(125, "Error: no such object")
    case ["ps", *_]:
        prefix = words[words.index("--filter") + 1].removeprefix("name=^")
        print(*(file.name for file in containers.iterdir() if file.name.startswith(prefix)), sep="\\n")
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
class FakeEngine:
    """An engine that behaves as a test wants."""

    home: Path

    @property
    def program(self) -> str:
        return str(self.home / "podman")

    def set_play(self, play: str) -> None:
        (self.home / "play").write_text(play)

    def set_info(self, info: str) -> None:
        (self.home / "info").write_text(info)

    @property
    def containers(self) -> list[str]:
        return [file.name for file in (self.home / "containers").iterdir()]

    @property
    def requests(self) -> str:
        return (self.home / "requests").read_text()


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    fake = FakeEngine(tmp_path.resolve() / "engine")
    (fake.home / "containers").mkdir(parents=True)
    fake.set_info(PODMAN)
    Path(fake.program).write_text(f"#!{sys.executable} -IS\n{ENGINE}")
    Path(fake.program).chmod(0o755)
    return fake


@pytest.fixture
def harness(engine, harness_of):
    return harness_of(Container(engine.program, "here", False))


@pytest.mark.parametrize("code", [0, 1, 7, 125, 126, 127, 143])
async def test_every_exit_code_is_the_commands_own(engine, harness, code):
    engine.set_play(f"end {code}")
    result = await harness.run(harness.launch("command"))
    assert (result.exit.code, result.exit.stop) == (code, None)
    assert engine.containers == []


@pytest.mark.parametrize("play", ["refuse", "break"])
async def test_an_engine_that_starts_nothing_is_a_failure_of_the_sandbox(engine, harness, play):
    engine.set_play(f"{play} Error: workdir does not exist")
    with pytest.raises(SandboxError, match="podman failed: Error: workdir does not exist"):
        await harness.run(harness.launch("command"))
    assert engine.containers == []


async def test_an_engine_that_exits_before_its_container_is_a_failure_of_the_sandbox(engine, harness):
    engine.set_play("desert deserted-token")
    with pytest.raises(SandboxError, match="exited before its container ended"):
        await harness.run(harness.launch("command"))
    assert engine.containers == pids_with("deserted-token") == []


async def test_a_container_that_the_kernel_killed_ran_out_of_memory(engine, harness):
    engine.set_play("starve")
    result = await harness.run(harness.launch("command"))
    assert (result.exit.code, result.exit.stop) == (137, Stop.MEMORY)


async def test_a_container_dies_when_its_time_is_up(engine, harness):
    engine.set_play("hang timed-token")
    result = await harness.run(harness.launch("command", bounds=bounds_with(seconds=1)))
    assert (result.exit.code, result.exit.stop) == (137, Stop.TIME)
    assert engine.containers == pids_with("timed-token") == []


async def test_a_container_dies_with_an_engine_that_ignores_sigterm(engine, harness, monkeypatch):
    monkeypatch.setattr("loopty.sandboxes.container.sandbox._EXIT_SECONDS", 0.2)
    engine.set_play("deaf deaf-token")
    result = await harness.run(harness.launch("command", bounds=bounds_with(seconds=1)))
    assert result.exit.stop is Stop.TIME
    assert engine.containers == pids_with("deaf-token") == pids_with(f"source={harness.tree}") == []


async def test_a_container_dies_when_it_is_cancelled(engine, harness):
    engine.set_play("hang cancelled-box")
    cancel = asyncio.Event()
    asyncio.get_running_loop().call_later(0.5, cancel.set)
    assert (await harness.run(harness.launch("command"), cancel)).exit.stop is Stop.CANCELLED
    assert engine.containers == pids_with("cancelled-box") == []


@pytest.mark.parametrize("delay", [0, 0.2, 1])
async def test_a_container_dies_when_its_task_is_cancelled(engine, harness, delay):
    box = f"task-box-{os.getpid()}"  # tests with other delays may run at the same time
    engine.set_play(f"hang {box}")
    task = asyncio.create_task(harness.run(harness.launch("command")))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.containers == pids_with(box) == []


async def test_a_channel_is_the_standard_input_and_output_of_the_engine(engine, harness):
    engine.set_play("answer")
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(b"question\n")
        launch = harness.launch("command", channel=theirs.detach())
        assert (await harness.sandbox.run(launch, asyncio.Event())).code == 0
        assert ours.makefile("rb").read() == b"answer to question\n"


async def test_the_engine_gets_the_trials_variables_and_few_of_the_hosts(engine, harness, monkeypatch):
    monkeypatch.setenv("OUR_SECRET", "ours")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/our/run")
    engine.set_play("end 0")
    variables = {"THEIR_SECRET": "theirs", "XDG_RUNTIME_DIR": "/their/run", "GODEBUG": "theirs"}
    await harness.run(harness.launch("command", env=variables))
    assert '"THEIR_SECRET": "theirs"' in engine.requests
    assert '"XDG_RUNTIME_DIR": "/our/run"' in engine.requests
    assert "OUR_SECRET" not in engine.requests
    assert '"GODEBUG":' not in engine.requests


async def test_the_message_about_a_missing_image_has_the_remedy(engine, harness_of):
    harness = harness_of(Container(engine.program, "absent:1", False))
    with pytest.raises(SandboxError, match=r"absent:1: image not known; fetch it first: podman pull absent:1"):
        await harness.run(harness.launch("command"))


@pytest.mark.parametrize("info", ["{}", '{{"ServerErrors": ["{}"]}}'])
async def test_the_message_about_a_stopped_daemon_has_the_remedy(engine, harness, info):
    engine.set_info(info.format("Cannot connect to the Docker daemon at unix:///run/docker.sock."))
    with pytest.raises(SandboxError, match="systemctl start docker"):
        await harness.run(harness.launch("command"))
    assert harness.sandbox.gaps == ()


async def test_the_message_about_unknown_gpus_has_the_remedy(engine, harness):
    engine.set_play("break Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all")
    with pytest.raises(SandboxError, match="nvidia-ctk cdi generate"):
        await harness.run(harness.launch("command"))


@pytest.mark.parametrize("name", ["auto", "podman"])
async def test_the_message_about_a_missing_engine_has_the_remedy(harness_of, monkeypatch, name):
    monkeypatch.setenv("PATH", "")
    harness = harness_of(Container(name, "here", False))
    with pytest.raises(SandboxError, match="is not installed: apt install podman"):
        await harness.run(harness.launch("command"))


def test_podman_comes_before_docker(engine, monkeypatch, tmp_path):
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{engine.home}")
    assert Container("auto", "here", False).gaps != ()


def protections(container: Container) -> set[Protection]:
    return {gap.protection for gap in container.gaps}


def test_bounds_that_an_engine_cannot_enforce_are_gaps(engine):
    assert protections(Container(engine.program, "here", False)) == {Protection.CALLS}
    engine.set_info(DOCKER)
    assert protections(Container(engine.program, "here", False)) == {Protection.CALLS}
    engine.set_info(BARE)
    bare = {Protection.CALLS, Protection.FORKS, Protection.MEMORY}
    assert protections(Container(engine.program, "here", False)) == bare


async def test_a_rootless_docker_runs_a_trial_as_its_root_which_is_the_user(engine, harness):
    engine.set_info(BARE)
    engine.set_play("end 0")
    await harness.run(harness.launch("command"))
    assert "--user=0:0" in engine.requests


PARENT = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from loopty.domain.launch import Bounds, Launch
    from loopty.sandboxes.container.sandbox import Container

    root = Path(sys.argv[1])
    bounds = Bounds(seconds=1000, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
    launch = Launch(("command",), "/", bounds, root / "out", root / "err")
    asyncio.run(Container(sys.argv[2], "here", False).run(launch, asyncio.Event()))
""")


def run_and_kill_loopty(engine: FakeEngine, root: Path) -> None:
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent), "PATH": os.defpath}
    command = [sys.executable, "-c", PARENT, str(root), engine.program]
    parent = subprocess.Popen(command, env=environment)
    out = root / "out"
    wait_until(lambda: out.exists() and out.read_text() and engine.containers)
    parent.kill()
    assert parent.wait() == -signal.SIGKILL


def test_a_container_dies_when_loopty_is_killed(engine, tmp_path):
    engine.set_play("hang orphan-box")
    run_and_kill_loopty(engine, tmp_path)
    wait_until(lambda: engine.containers == pids_with("orphan-box") == [])


async def test_the_next_start_removes_only_containers_of_a_dead_loopty(engine, harness):
    engine.set_play("end 0")
    ours = Path("/proc/self/ns/pid").stat().st_ino
    first = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    living = {f"loopty-{ours}-1-{first}-a", f"loopty-{ours}-by-hand", "loopty-1-1-1-a", "somebody-else"}
    for name in (*living, f"loopty-{ours}-1-999999999-a", f"loopty-{ours}-4194305-1-a"):
        (engine.home / "containers" / name).write_text('{"Pid": 0}')
    await harness.run(harness.launch("command"))
    assert set(engine.containers) == living


async def test_the_watcher_exits_with_its_sandbox(engine, harness_of):
    engine.set_play("end 0")
    harness = harness_of(Container(engine.program, "here", False))
    await harness.run(harness.launch("command"))
    assert len(pids_with(engine.program)) == 1
    del harness
    gc.collect()
    wait_until(lambda: pids_with(engine.program) == [])


def test_of_two_engines_the_one_that_answers_is_taken(tmp_path, monkeypatch):
    for name, body in {"podman": "exit 1", "docker": "echo '{}'"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_program("auto") == str(tmp_path / "docker")
    (tmp_path / "docker").unlink()
    assert find_program("auto") == str(tmp_path / "podman"), "its own words say what is wrong"
