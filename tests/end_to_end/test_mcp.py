"""`loopty mcp`: the protocol as hosts speak it, and a server that loses nothing when it is killed."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest

from loopty.record.tickets import Tickets

from .conftest import CODE_TASK, NUMBER_BENCH
from .state import kept_of

TASK = CODE_TASK + '[noise]\nrepeat = "never"\n'
LOOPTY = [sys.executable, "-m", "loopty.cli.main"]


class Host:
    """A host of an agent: it starts the server, and speaks to it line by line."""

    def __init__(self, place, **variables: str) -> None:
        self.process = subprocess.Popen(
            [*LOOPTY, "mcp"],
            cwd=place.top,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.number, self._rest = 0, b""

    def send(self, raw: bytes) -> None:
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def ask(self, method: str, **params) -> int:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.send(json.dumps(message).encode() + b"\n")
        return self.number

    def read(self) -> dict:
        while b"\n" not in self._rest:
            assert select.select([self.process.stdout], [], [], 120)[0], "no answer"
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            assert part, "the server has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def call(self, tool: str, **arguments) -> tuple[str, bool]:
        """The text of a tool's answer, and whether it is an error."""
        number = self.ask("tools/call", name=tool, arguments=arguments)
        answer = self.read()
        assert answer["id"] == number
        (content,) = answer["result"]["content"]
        assert len(content["text"]) <= 8_000
        return content["text"], answer["result"]["isError"]

    def result(self, ticket_or_node: str) -> str:
        """The result of what was submitted, however long it takes."""
        end = time.monotonic() + 120
        while "still running" in (text := self.call("wait", id=ticket_or_node)[0]):
            assert time.monotonic() < end
        return text

    def start(self, name: str = "host", revision: str = "2025-06-18") -> dict:
        self.ask("initialize", protocolVersion=revision, clientInfo={"name": name}, capabilities={})
        answer = self.read()["result"]
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        return answer

    def end(self, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with self.process.stdout:
            assert self.process.wait(60) == (-signal.SIGKILL if kill else 0)


@pytest.fixture
def agents(code_place):
    """A repository with a task for agents."""
    code_place.write("loopty.toml", TASK.format(attempts=9))
    code_place.commit()
    return code_place


def opened(host, **arguments):
    """The path of a new draft, which its folder is named by."""
    return re.search(r"/drafts/(\S+)", host.call("open", **arguments)[0])[1]


def edit(place, node: str, number: int) -> None:
    (place.top / ".loopty/drafts" / node / "src/x.txt").write_text(f"{number}\n")


def test_a_host_makes_an_experiment(agents):
    host = Host(agents)
    answer = host.start("codex")
    assert answer["protocolVersion"] == "2025-06-18"
    assert answer["serverInfo"]["name"] == "loopty"
    assert "Call context first" in answer["instructions"]
    host.ask("tools/list")
    tools = host.read()["result"]["tools"]
    assert [tool["name"] for tool in tools] == [
        *("context", "open", "try", "check", "submit", "wait", "show", "note", "manage"),
    ]
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools)
    assert len(json.dumps(tools)) < 8_000
    assert "TASK" in host.call("context")[0]
    text, is_error = host.call("open", hypothesis="nine is more", surface="the number")
    assert not is_error
    assert "Opened @2" in text
    edit(agents, "1.1", 9)
    host.call("submit", id="1.1", wait=0)
    assert "@2 kept" in host.result("1.1")
    assert agents.history()["1.1"].author.startswith("codex-")
    host.end()


def test_hosts_of_other_revisions_and_their_habits_are_served(agents):
    host = Host(agents)
    assert host.start(revision="1999-01-01")["protocolVersion"] == "2025-11-25"
    host.ask("ping")
    assert host.read()["result"] == {}
    host.ask("resources/list")
    assert host.read()["error"]["code"] == -32601
    host.send(b"no json\n")
    assert host.read()["error"]["code"] == -32700
    host.send(b'{"jsonrpc": "2.0", "id": 5}\n\n[]\n')
    assert host.read()["error"]["code"] == -32600
    host.send(b'{"jsonrpc": "2.0", "id": "x", "result": {}}\n')
    host.send(
        b'[{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "id": "b", "method": "ping"}]\n'
    )
    assert [host.read()["id"], host.read()["id"]] == ["a", "b"]
    host.ask("tools/call", name="fly")
    assert host.read()["error"]["code"] == -32602
    number = host.ask("tools/call", name="context", arguments={})
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
    host.send(json.dumps(cancel).encode() + b"\n")
    assert "TASK" in host.read()["result"]["content"][0]["text"]
    host.ask("tools/call", name="open", arguments="hypothesis")
    assert host.read()["result"]["isError"]
    host.end()


def test_a_message_without_end_ends_the_session(agents):
    host = Host(agents)
    host.start()
    with contextlib.suppress(BrokenPipeError):
        for _ in range(40):
            host.send(b"x" * (1 << 16))
    assert host.read()["error"]["message"] == "the message is too long"
    host.end()


def test_work_goes_on_when_its_server_is_killed(agents):
    go = agents.top / "go"
    agents.write("bench.sh", f"test -e {go} || sleep 3\n{NUMBER_BENCH}")
    agents.commit()
    host = Host(agents)
    host.start()
    for number in (7, 9):
        node = opened(host, hypothesis=f"{number} is more")
        edit(agents, node, number)
        assert "still running" in host.call("submit", id=node, wait=0)[0]
    host.end(kill=True)
    again = Host(agents)
    again.start("other")
    assert "@2 kept" in again.result("1.1")
    assert "@3 kept" in again.result("1.2")
    history = agents.history()
    assert Tickets.of(history.run).open == {}
    assert [history[node].trials for node in ("1.1", "1.2")] == [1, 1], "nothing ran twice"
    again.end()


def test_a_ticket_whose_worker_is_killed_is_taken_by_the_next(agents):
    agents.write("bench.sh", f"sleep 2\n{NUMBER_BENCH}")
    agents.commit()
    host = Host(agents)
    host.start()
    node = opened(host, hypothesis="nine")
    edit(agents, node, 9)
    host.call("submit", id=node, wait=0)
    end = time.monotonic() + 60
    while not (worker := running_worker(agents)):
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(worker, signal.SIGKILL)
    assert "kept" in host.result(node)
    assert agents.history()[node].losses <= 1
    host.end()


def running_worker(place) -> int | None:
    """The process that runs the trial of a ticket now."""
    from loopty.session.ticket_work import worker_of
    from loopty.session.tickets import TicketFiles

    return worker_of(TicketFiles(place.state_folder), 1, 1) if Tickets.of(place.history().run).open else None


SPAN_BENCH = """\
import json, os, time
start = time.time()
time.sleep(0.2)
score = int(open("src/x.txt").read())
open(os.environ["EVO_TRACES_DIR"] + "/task_span.json", "w").write(json.dumps([start, time.time()]))
json.dump({"score": score}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""


@pytest.mark.parametrize(("width", "resource", "most"), [(2, False, 2), (4, True, 1)])
def test_four_clients_at_once_share_width_and_resources_and_run_no_twin(agents, width, resource, most):
    task = TASK.format(attempts=40).replace("sh bench.sh", "python3 bench.py")
    named = f'resources = ["gpu {uuid.uuid4()}"]\n[access]' if resource else "[access]"
    agents.write("loopty.toml", f"width = {width}\n" + task.replace("[access]", named))
    agents.write("bench.py", SPAN_BENCH)
    agents.commit()
    agents.loopty("run", "1")
    hosts = [Host(agents) for _ in range(4)]
    answers: list[str] = []

    def work(host: Host, number: int) -> None:
        host.start(f"client{number}")
        for score in (10 + number, 50):
            node = opened(host, parent="1", hypothesis=f"client {number} tries {score}")
            edit(agents, node, score)
            text, is_error = host.call("submit", id=node)
            answers.append(text if is_error else host.result(node))
        host.end()

    threads = [threading.Thread(target=work, args=(host, number)) for number, host in enumerate(hosts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert sum("is the same as" in answer for answer in answers) == 3, answers
    history = agents.history()
    ran = [node for node in history.ids if node != "1" and history[node].trials]
    assert sorted(history[node].outcome.metrics["score"] for node in ran) == [10, 11, 12, 13, 50]
    assert [history[node].trials for node in ran] == [1] * 5
    spans = [tuple(json.loads(kept_of(agents, node).read("traces/task_span.json"))) for node in ran]
    assert max(sum(start <= moment < end for start, end in spans) for moment, _ in spans) <= most
    assert Tickets.of(history.run).open == {}
