"""The port on loopback that leads to the socket of a trial's model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import SDK

pytestmark = pytest.mark.usefixtures("model")

PORT = SDK / "python" / "loopty_sdk" / "model_port.py"
PATIENCE = 60
ASK = """
import os, sys, urllib.request
url, body = os.environ["OPENAI_BASE_URL"] + sys.argv[1], sys.argv[2].encode() * int(sys.argv[3])
reply = urllib.request.urlopen(url, body)
sys.stdout.buffer.write(reply.read())
"""


class Model:
    """Answers each request with its own body, once all of it has arrived."""

    def __init__(self, place: Path) -> None:
        self.heads: list[bytes] = []
        self.ended = threading.Semaphore(0)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen(256)
        self._place = str(place)
        self._accepting = threading.Thread(target=self._accept_client)
        self._accepting.start()

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self._place)
            last.sendall(b"over")
        self._accepting.join()
        self._listener.close()

    def _accept_client(self) -> None:
        threads = []
        while True:
            connection, _ = self._listener.accept()
            if connection.recv(4, socket.MSG_PEEK) == b"over":
                connection.close()
                break
            threads.append(threading.Thread(target=self._answer, args=(connection,)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as request:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                if not (line := request.readline()):
                    return  # the client left before it had asked
                head += line
            self.heads.append(head)
            body = request.read(int(head.lower().partition(b"content-length:")[2].split()[0]))
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
                connection.shutdown(socket.SHUT_WR)
                request.read()
            except OSError:
                pass
            self.ended.release()


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    model = Model(tmp_path / "model")
    yield model
    model.close()


def start(tmp_path: Path, *command: str, **options: object) -> subprocess.Popen[bytes]:
    env = {
        "PATH": os.environ["PATH"],
        "LOOPTY_MODEL_SOCKET": str(tmp_path / "model"),
        "LANG": "C.UTF-8",
        "KEPT": "1",
    }
    argv = [sys.executable, "-I", "-S", "-B", str(PORT), *command]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


def run(tmp_path: Path, *command: str, **options: object) -> tuple[int, bytes, bytes]:
    with start(tmp_path, *command, **options) as process:
        out, err = process.communicate(timeout=PATIENCE)
    end_forwarders(tmp_path)
    return process.returncode, out, err


def forwarders(tmp_path: Path) -> list[int]:
    """The processes that forward to the socket of this test: in a trial the sandbox would end them."""
    pids = []
    for directory in Path("/proc").iterdir():
        try:
            environment = directory.name.isdecimal() and (directory / "environ").read_bytes()
        except OSError:
            continue
        if environment and f"LOOPTY_MODEL_SOCKET={tmp_path}/model".encode() in environment.split(b"\0"):
            pids.append(int(directory.name))
    return pids


def end_forwarders(tmp_path: Path) -> None:
    for pid in forwarders(tmp_path):
        os.kill(pid, signal.SIGKILL)


def test_ordinary_clients_find_the_model(tmp_path: Path, model: Model) -> None:
    code, out, err = run(tmp_path, sys.executable, "-c", ASK, "/chat/completions", "hello", "1")
    assert (code, out, err) == (0, b"hello", b"")
    assert model.heads[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")


def test_the_environment_names_the_address_for_every_client(tmp_path: Path) -> None:
    _, out, _ = run(tmp_path, "env")
    env = dict(line.split("=", 1) for line in out.decode().splitlines())
    root = env["ANTHROPIC_BASE_URL"]
    assert root.startswith("http://127.0.0.1:")
    assert env["GOOGLE_GEMINI_BASE_URL"] == root
    assert env["OPENAI_BASE_URL"] == env["OPENAI_API_BASE"] == f"{root}/v1"
    assert env["KEPT"] == "1"


def test_large_bodies_pass_both_ways(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, sys.executable, "-c", ASK, "/x", "0123456789", "500000")
    assert (code, out == b"0123456789" * 500_000) == (0, True)


def test_more_clients_than_are_served_at_once_all_get_their_answer(tmp_path: Path) -> None:
    script = """
import os, socket
address = os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://").split(":")
clients = [socket.create_connection((address[0], int(address[1]))) for _ in range(150)]
for client in clients:
    client.sendall(b"POST / HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\nhi")
for client in clients:
    reply = client.makefile("rb").read()
    client.close()
    assert reply.endswith(b"hi"), reply
"""
    code, _, err = run(tmp_path, sys.executable, "-c", script)
    assert code == 0, err


def test_the_model_sees_that_a_client_left(tmp_path: Path, model: Model) -> None:
    script = """
import os, socket
address = os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://").split(":")
for _ in range(100):
    client = socket.create_connection((address[0], int(address[1])))
    client.sendall(b"POST / HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\nhi")
    client.close()
"""
    with start(tmp_path, sys.executable, "-c", script) as process:
        process.communicate(timeout=PATIENCE)
        assert all(model.ended.acquire(timeout=PATIENCE) for _ in range(100))
    end_forwarders(tmp_path)


def test_the_command_replaces_the_process(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "exit 7")[0] == 7
    assert run(tmp_path, "sh", "-c", "kill -TERM $$")[0] == -signal.SIGTERM
    with start(tmp_path, "sh", "-c", "cat; echo oops >&2; echo $$", stdin=subprocess.PIPE) as process:
        out, err = process.communicate(b"in\n", timeout=PATIENCE)
    end_forwarders(tmp_path)
    assert out.decode().split() == ["in", str(process.pid)]
    assert err == b"oops\n"


def test_a_command_that_waits_for_its_children_has_none(tmp_path: Path) -> None:
    script = "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('none')"
    assert run(tmp_path, sys.executable, "-c", script)[1] == b"none\n"


def test_a_command_that_ends_its_process_group_keeps_its_model(tmp_path: Path) -> None:
    script = "trap '' TERM; kill -TERM 0; exec \"$@\""
    ask = (sys.executable, "-c", ASK, "/x", "hello", "1")
    code, out, _ = run(tmp_path, "sh", "-c", script, "sh", *ask, start_new_session=True)
    assert (code, out) == (0, b"hello")


def test_signals_that_python_ignores_are_not_ignored_by_the_command(tmp_path: Path) -> None:
    _, out, _ = run(tmp_path, "sh", "-c", "grep SigIgn /proc/self/status")
    ignored = int(out.split()[1], 16)  # the process that started the tests may ignore others
    assert not any(ignored >> (number - 1) & 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


def test_the_output_ends_when_the_command_ends(tmp_path: Path) -> None:
    with start(tmp_path, "echo", "done") as process:
        assert process.communicate(timeout=PATIENCE) == (b"done\n", b"")
        assert forwarders(tmp_path), "the forwarder has closed the command's streams, and is still running"
    end_forwarders(tmp_path)


@pytest.mark.parametrize(("command", "code"), [("no-such-command", 127), ("/dev/null", 126)])
def test_a_command_that_cannot_start_fails_as_in_a_shell(tmp_path: Path, command: str, code: int) -> None:
    returned, _, err = run(tmp_path, command)
    assert (returned, err.startswith(command.encode())) == (code, True)


def test_a_connection_to_a_model_that_has_ended_is_refused(tmp_path: Path) -> None:
    code, _, err = run(tmp_path / "elsewhere", sys.executable, "-c", ASK, "/x", "hello", "1")
    assert code == 1
    assert b"Error" in err
