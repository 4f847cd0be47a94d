"""The resident process: verbs have the same effect through it, and none is lost with it."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from loopty.resident.meeting_place import MeetingPlace
from loopty.resident.server import process_number

LOOPTY = [sys.executable, "-m", "loopty.cli.main"]


@pytest.fixture
def served(code_place):
    """A repository whose baseline ran, with a resident process."""
    code_place.loopty("run", "1")
    serve(code_place)
    yield code_place
    if number := resident(code_place):
        os.kill(number, signal.SIGKILL)
    with contextlib.suppress(FileNotFoundError):
        Path(meeting_place(code_place).socket).unlink()
    Path(meeting_place(code_place).lock).unlink()


def meeting_place(place) -> MeetingPlace:
    return MeetingPlace(str(place.top / ".git"))


def serve(place, *options: str, **variables: str) -> int:
    done = verb(place, "serve", "--json", *options, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["resident"]


def verb(place, *args: str, **variables: str) -> subprocess.CompletedProcess:
    env = {**os.environ, **variables}
    return subprocess.run([*LOOPTY, *args], cwd=place.top, env=env, capture_output=True, text=True, timeout=120)


def resident(place) -> int | None:
    return process_number(meeting_place(place))


def command_line(number: int) -> bytes:
    """The words by which a process was started; none when it is gone."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def children(number: int) -> list[int]:
    text = Path(f"/proc/{number}/task/{number}/children").read_text()
    return [int(child) for child in text.split()]


def verbs(number: int) -> list[int]:
    """The processes that the resident one has forked, and not what starts their trials."""
    return [child for child in children(number) if command_line(child) == command_line(number)]


def launcher(number: int) -> int | None:
    return next((child for child in children(number) if command_line(child).startswith(b"trial")), None)


def is_alive(number: int) -> bool:
    return bool(command_line(number))


def has_trial(place) -> bool:
    """Whether a verb has made the folder of a trial."""
    folder = place.state / "trials"
    return folder.exists() and any(folder.iterdir())


def wait_until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


def test_a_verb_gives_the_same_through_it_as_alone(served):
    number = resident(served)
    for args in (("best", "--json"), ("show", "1", "--json"), ("show", "1.99"), ("tree",), ("run",), ("--help",)):
        through, alone = verb(served, *args), verb(served, *args, LOOPTY_RESIDENT="0")
        assert (through.returncode, through.stdout, through.stderr) == (
            alone.returncode,
            alone.stdout,
            alone.stderr,
        )
    assert resident(served) == number
    assert f"process {number}" in verb(served, "status").stdout
    assert json.loads(verb(served, "status", "--json").stdout)["resident"] == number


def test_a_node_is_made_and_run_through_it_in_the_callers_directory(served):
    (served.top / "below").mkdir()
    made = subprocess.run(
        ["sh", "-c", 'umask 027; exec "$@"', "sh", *LOOPTY, "new", "--json"],
        cwd=served.top / "below",
        capture_output=True,
        text=True,
        check=True,
    )
    draft = json.loads(made.stdout)
    file = Path(draft["workspace"], "src/x.txt")
    assert not file.stat().st_mode & 0o007
    file.write_text("9\n")
    done = verb(served, "run", draft["node"])
    assert done.returncode == 0, done.stderr
    assert "kept" in done.stdout


def test_it_has_ended_when_the_verb_that_stops_it_returns(served):
    for surroundings in ("0", "7") * 5:
        assert "stopped" in verb(served, "serve", "--stop", PYTHONHASHSEED=surroundings).stderr
        assert resident(served) is None
        serve(served)


def test_one_that_does_not_end_is_named(served):
    meeting = meeting_place(served)
    Path(meeting.socket).unlink()  # as after a cleaning of the temporary folder: nobody can reach it
    done = verb(served, "serve", "--stop")
    assert done.returncode == 2
    assert f"kill {resident(served)}" in done.stderr


def test_the_environment_of_one_client_does_not_reach_another(served, tmp_path):
    assert verb(served, "serve", "--stop").returncode == 0
    assert resident(served) is None
    elsewhere = str(tmp_path / "elsewhere")
    serve(served, LOOPTY_STATE_DIR=elsewhere)
    assert verb(served, "best").returncode == 0
    assert "nothing has run here yet" in verb(served, "best", LOOPTY_STATE_DIR=elsewhere).stderr
    assert verb(served, "best").returncode == 0


def test_a_client_in_other_surroundings_runs_its_verb_itself(served):
    os.kill(resident(served), signal.SIGSTOP)  # whoever asks it waits
    assert verb(served, "best", LOOPTY_RESIDENT="0").returncode == 0
    os.kill(resident(served), signal.SIGCONT)
    before = resident(served)
    done = verb(served, "best", PYTHONHASHSEED="7")
    assert done.returncode == 0, done.stderr
    assert resident(served) == before


SLOW = """
[benchmark]
command = "sleep 1000"
timeout_seconds = 2000
[access]
write = ["src/**"]
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_verb_ends_with_its_client(served, number):
    served.write("loopty.toml", SLOW)
    served.commit()
    client = subprocess.Popen([*LOOPTY, "run", "1", "--check"], cwd=served.top, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: has_trial(served))
    client.send_signal(number)
    _, err = client.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert client.returncode == 1
        assert "try again" in err
    wait_until(lambda: not verbs(resident(served)))


def test_a_verb_that_is_killed_tells_its_client(served):
    served.write("loopty.toml", SLOW)
    served.commit()
    client = subprocess.Popen([*LOOPTY, "run", "1", "--check"], cwd=served.top, stderr=subprocess.DEVNULL)
    wait_until(lambda: has_trial(served))
    os.kill(verbs(resident(served))[0], signal.SIGKILL)
    assert client.wait(60) == -signal.SIGKILL


def run_change(place, text: str) -> None:
    """Make a node with this text and run it."""
    draft = json.loads(verb(place, "new", "--parent", "1", "--json").stdout)
    Path(draft["workspace"], "src/x.txt").write_text(f"{text}\n")
    done = verb(place, "run", draft["node"])
    assert done.returncode == 0, done.stderr


def test_one_process_starts_the_trials_of_all_verbs_and_ends_with_the_last(served):
    run_change(served, "8")
    first = launcher(resident(served))
    run_change(served, "9")
    assert launcher(resident(served)) == first
    assert verb(served, "serve", "--stop").returncode == 0
    wait_until(lambda: not is_alive(first))


def test_what_starts_trials_is_started_again_when_it_was_killed(served):
    run_change(served, "8")
    first = launcher(resident(served))
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(first))
    run_change(served, "9")
    assert launcher(resident(served)) not in (None, first)


def test_a_trial_goes_on_when_the_resident_process_is_killed(served):
    served.write("loopty.toml", SLOW.replace("1000", "3"))
    served.commit()
    client = subprocess.Popen([*LOOPTY, "run", "1", "--check"], cwd=served.top, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: has_trial(served))
    number = resident(served)
    wait_until(lambda: launcher(number))
    starts_trials = launcher(number)
    os.kill(number, signal.SIGKILL)
    _, err = client.communicate(timeout=60)
    assert "the result file was not written" in err, err
    wait_until(lambda: not is_alive(starts_trials))


def test_no_verb_is_lost_when_it_is_killed_at_any_instant(served):
    rng, made = random.Random(1), []
    for _ in range(3):
        serve(served)
        threads = [threading.Thread(target=lambda: made.append(verb(served, "new", "--json"))) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(rng.uniform(0, 0.4))
        if number := resident(served):
            os.kill(number, signal.SIGKILL)
        for thread in threads:
            thread.join()
    assert [done.returncode for done in made] == [0] * 9, [done.stderr for done in made]
    nodes = {json.loads(done.stdout)["node"] for done in made}
    assert {node for node in served.history().ids if node != "1"} == nodes
    assert len(nodes) == 9


def test_eight_clients_at_once(served):
    clients = [
        subprocess.Popen([*LOOPTY, "new", "--json"], cwd=served.top, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    nodes = {json.loads(client.communicate(timeout=120)[0])["node"] for client in clients}
    assert nodes == {f"1.{number}" for number in range(1, 9)}


GARBAGE = [
    b"",
    b"\0" * 4,
    b"\xff" * 64,
    (40).to_bytes(8, "big") + b"verb\0x\0",
    (9).to_bytes(8, "big") + b"GET / HTTP",
    (14).to_bytes(8, "big") + b"verb\0\0\0-1\0-1\0\0",
    (1 << 40).to_bytes(8, "big"),
]


def test_garbage_on_the_socket_disturbs_nobody(served):
    number = resident(served)
    for garbage in GARBAGE:
        with socket.socket(socket.AF_UNIX) as stranger, contextlib.suppress(ConnectionResetError):
            stranger.connect(meeting_place(served).socket)
            stranger.sendall(garbage)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
    assert verb(served, "best").returncode == 0
    assert resident(served) == number


def test_a_request_without_descriptors_is_refused(served):
    from loopty.resident.request import VERB, VerbRequest
    from loopty.resident.surroundings import surroundings

    git_dir = os.fsencode(served.top / ".git")
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(meeting_place(served).socket)
        stranger.sendall(VerbRequest(VERB, git_dir, surroundings(), 0o022, [b"best"]).to_bytes())
        assert stranger.recv(100) == b""


def test_it_ends_when_it_is_idle_and_leaves_no_socket(code_place):
    serve(code_place, "--idle-seconds", "1")
    wait_until(lambda: resident(code_place) is None)
    assert not Path(meeting_place(code_place).socket).exists()
    Path(meeting_place(code_place).lock).unlink()


def test_a_second_one_is_not_started_and_a_stale_socket_is_replaced(served):
    number = resident(served)
    assert serve(served) == number
    os.kill(number, signal.SIGKILL)
    wait_until(lambda: resident(served) is None)
    assert Path(meeting_place(served).socket).exists()
    assert verb(served, "best").returncode == 0
    assert serve(served) != number
    assert verb(served, "best").returncode == 0


def test_a_verb_starts_one_where_the_user_wants_that(served):
    assert verb(served, "serve", "--stop").returncode == 0
    assert verb(served, "best", LOOPTY_RESIDENT="1").returncode == 0
    wait_until(lambda: resident(served))


def test_processes_that_wait_for_verbs_may_be_killed_and_end_with_the_resident_one(served):
    number = resident(served)
    run_change(served, "8")
    waiting = verbs(number)
    assert waiting
    for process in waiting:
        os.kill(process, signal.SIGKILL)
    run_change(served, "9")
    assert resident(served) == number
    waiting = verbs(number)
    assert waiting
    os.kill(number, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, waiting)))
