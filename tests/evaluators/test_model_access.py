"""A benchmark that calls a model: what it can reach, what it costs, and who is blamed for a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopty.domain.benchmark import Gate
from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage, RoleBudget
from loopty.domain.trial import Ending
from loopty.record.calls import Spend
from loopty.sandboxes.landlock import order
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.unsafe import Unsafe

from ..features.endpoint.served_run import KEY, MODEL, ServedRun
from ..models.server import ScriptedServer, answer, hang, refusal
from ..models.vendor_replies import ANSWER, openai_reply

TIMEOUT_SECONDS = 60
CALLS_MODEL = """
import json, os, socket, sys, urllib.error, urllib.request
from loopty_sdk import Run
def ask(text="hello"):
    body = json.dumps({"model": os.environ["LOOPTY_MODEL"], "messages": [{"role": "user", "content": text}]})
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body.encode(), headers)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]
"""
SCORES = CALLS_MODEL + "Run().finish(len(ask()))\n"
COPES = CALLS_MODEL + "try:\n    ask()\nexcept urllib.error.HTTPError:\n    Run().finish(3)\n"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(answer(openai_reply())) as server:
        yield server


@pytest.fixture
def desk(bench: Any, tmp_path: Path, server: ScriptedServer) -> ServedRun:
    return served(bench, tmp_path, server)


def served(
    bench: Any, tmp_path: Path, server: ScriptedServer, funds: RoleBudget | None = None, **stated: Any
) -> ServedRun:
    (tmp_path / "desk").mkdir()
    desk = ServedRun(tmp_path / "desk", None, funds, url=f"{server.url}/v1", **stated)
    bench.serving = desk.serving
    return desk


def last_output(bench: Any) -> Any:
    return json.loads(bench.log.splitlines()[-1])


async def test_a_benchmark_calls_the_model_with_an_ordinary_client(bench: Any, desk: ServedRun) -> None:
    outcome = await bench.run(SCORES)
    assert (outcome.ending, outcome.metrics) == (Ending.FINISHED, {"score": float(len(ANSWER))}), outcome
    assert Spend.of(desk.run).tokens == {"user": 32}
    assert desk.reserved[0].node == "1.2"


async def test_eight_calls_at_once(bench: Any, desk: ServedRun) -> None:
    outcome = await bench.run(
        CALLS_MODEL + "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    Run().finish(len(list(pool.map(ask, map(str, range(8))))))\n"
    )
    assert outcome.metrics == {"score": 8.0}, outcome
    assert Spend.of(desk.run).tokens == {"user": 8 * 32}


@pytest.mark.usefixtures("desk")
async def test_nothing_else_can_be_reached(bench: Any, server: ScriptedServer) -> None:
    port = int(server.url.rpartition(":")[2])
    outcome = await bench.run(
        CALLS_MODEL
        + f"""
found = {{}}
for name, family, place in (
    ("upstream", socket.AF_INET, ("127.0.0.1", {port})),
    ("internet", socket.AF_INET, ("192.0.2.1", 443)),
    ("resolver", socket.AF_INET, ("127.0.0.53", 53)),
):
    with socket.socket(family) as tried:
        tried.settimeout(5)
        found[name] = tried.connect_ex(place)
found["interfaces"] = [name for _, name in socket.if_nameindex()]
found["socket"] = oct(os.stat("/t/model").st_mode & 0o777)
ask()
print(json.dumps(found))
Run().finish(1)
"""
    )
    assert outcome.is_finished, outcome
    found = last_output(bench)
    assert found.pop("interfaces") == ["lo"]
    assert found.pop("socket") == "0o666"
    assert all(found.values()), found
    assert len(server.requests) == 1


@pytest.mark.usefixtures("desk")
async def test_the_key_is_nowhere_in_the_sandbox(bench: Any) -> None:
    outcome = await bench.run(
        CALLS_MODEL
        + f"""
import pathlib
ask()
secret = "{KEY[::-1]}"[::-1].encode()
seen, looked = [], 0
for top in ("/proc", "/t", "/tmp", os.environ.get("HOME", "/tmp")):
    for path in pathlib.Path(top).rglob("*"):
        if path.name in ("environ", "cmdline", "status") or (top != "/proc" and path.is_file()):
            try:
                looked += 1
                if secret in path.read_bytes():
                    seen.append(str(path))
            except OSError:
                pass
for pid in [name for name in os.listdir("/proc") if name.isdecimal()]:
    try:
        with open(f"/proc/{{pid}}/maps") as maps, open(f"/proc/{{pid}}/mem", "rb", 0) as memory:
            for line in maps:
                first, last = (int(part, 16) for part in line.split()[0].split("-"))
                if "rw" in line and int(pid) != os.getpid():
                    memory.seek(first)
                    seen += [line] if secret in memory.read(last - first) else []
    except (OSError, ValueError, OverflowError):
        pass
print(json.dumps([seen, looked, sorted(name for name in os.environ if "KEY" in name or "MODEL" in name)]))
Run().finish(1)
"""
    )
    assert outcome.is_finished, outcome
    seen, looked, names = last_output(bench)
    assert seen == []
    assert looked > 5
    assert names == [
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "LOOPTY_MODEL",
        "LOOPTY_MODEL_SOCKET",
        "OPENAI_API_KEY",
    ]


async def test_a_cap_that_is_spent_in_the_middle_is_not_the_candidates_fault(
    bench: Any, tmp_path: Path, server: ScriptedServer
) -> None:
    desk = served(bench, tmp_path, server, RoleBudget("user", tokens=200, cache="never"))
    with pytest.raises(Exhausted, match="tokens"):
        await bench.run(CALLS_MODEL + "Run().finish(sum(len(ask()) for _ in range(5)))\n")
    assert "429" in (bench.folder / "stderr.log").read_text()
    assert 0 < Spend.of(desk.run).tokens["user"] <= 200
    assert not Spend.of(desk.run).reservations


async def test_a_result_made_with_a_spent_cap_does_not_count(
    bench: Any, tmp_path: Path, server: ScriptedServer
) -> None:
    served(bench, tmp_path, server, RoleBudget("user", tokens=1, cache="never"))
    with pytest.raises(Exhausted):
        await bench.run(COPES)


@pytest.mark.parametrize(
    "benchmark",
    [
        "Run().finish(sum(len(ask()) for _ in range(5)))\n",
        "try:\n    [ask() for _ in range(5)]\nexcept urllib.error.HTTPError:\n    Run().finish(3)\n",
    ],
    ids=["one that fails", "one that copes"],
)
async def test_a_trial_that_exceeds_its_allowance_is_a_failure_of_its_candidate(
    bench: Any, tmp_path: Path, server: ScriptedServer, benchmark: str
) -> None:
    desk = served(bench, tmp_path, server, RoleBudget("user", trial_tokens=200, cache="never"))
    outcome = await bench.run(CALLS_MODEL + benchmark)
    assert (outcome.ending, outcome.metrics) == (Ending.FAILED, {})
    assert "would pass the 200 that one trial may use (trial_tokens of the user role)" in outcome.reason
    assert "\n" not in outcome.reason
    assert outcome.seconds > 0
    assert Spend.of(desk.run).tokens["user"] <= 200


async def test_a_provider_that_is_down_is_not_the_candidates_fault(bench: Any, tmp_path: Path) -> None:
    with ScriptedServer(refusal(500, "down")) as server:
        served(bench, tmp_path, server, retries=1, outage_seconds=0.0)
        with pytest.raises(Outage, match="500"):
            await bench.run(SCORES)
        outcome = await bench.run(
            CALLS_MODEL + "try:\n    ask()\nexcept urllib.error.HTTPError:\n    Run().finish(3)\n"
        )
        assert outcome.metrics == {"score": 3.0}, "a benchmark that coped has a result"


async def test_a_candidate_that_exceeds_its_allowance_has_failed_even_if_the_provider_failed_once(
    bench: Any, tmp_path: Path
) -> None:
    copes = """
def status():
    try:
        ask()
    except urllib.error.HTTPError as error:
        return error.code
print(json.dumps([status() for _ in range(4)]))
Run().finish(3)
"""
    with ScriptedServer(refusal(401, "not this time"), answer(openai_reply())) as server:
        served(bench, tmp_path, server, RoleBudget("user", trial_tokens=150, cache="never"))
        outcome = await bench.run(CALLS_MODEL + copes)
    assert last_output(bench) == [502, None, None, 429]
    assert outcome.ending is Ending.FAILED
    assert "trial_tokens" in outcome.reason


@pytest.mark.usefixtures("desk")
async def test_a_candidate_that_fails_while_the_model_works_has_failed(bench: Any) -> None:
    outcome = await bench.run(CALLS_MODEL + "ask()\nraise SystemExit(3)\n")
    assert (outcome.ending, outcome.reason) == (Ending.FAILED, "exit code 3")
    outcome = await bench.run("import signal, os\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert (outcome.ending, outcome.reason) == (Ending.FAILED, "exit code 137: Killed")


async def test_a_cancelled_trial_pays_for_its_unanswered_call(bench: Any, tmp_path: Path) -> None:
    cancel = asyncio.Event()
    with ScriptedServer(hang) as server:
        desk = served(bench, tmp_path, server)
        running = asyncio.create_task(bench.run(SCORES, cancel=cancel))
        assert await asyncio.to_thread(server.asked.wait, TIMEOUT_SECONDS)
        cancel.set()
        outcome = await running
    assert outcome.ending is Ending.CANCELLED
    assert Spend.of(desk.run).tokens == {"user": desk.reserved[0].tokens}
    assert not Spend.of(desk.run).reservations


@pytest.mark.usefixtures("desk")
async def test_an_isolated_candidate_has_no_model(bench: Any) -> None:
    outcome = await bench.run(
        CALLS_MODEL + "from loopty_sdk import candidate\n"
        "with candidate('program.py:look') as look:\n    print(json.dumps([look(), ask()]))\nRun().finish(1)\n",
        "import os, socket\ndef look():\n"
        "    names = [name for name in os.environ if 'MODEL' in name or 'API' in name or 'BASE_URL' in name]\n"
        "    return [names, os.path.exists('/t/model')]\n",
    )
    assert outcome.is_finished, outcome
    assert last_output(bench) == [[[], False], ANSWER]


@pytest.mark.usefixtures("desk")
async def test_a_candidate_beside_the_benchmark_shares_the_model(bench: Any) -> None:
    bench.isolated = False
    bench.write("tree", "evaluate.py", "import program\n" + CALLS_MODEL + "Run().finish(program.work(ask))\n")
    bench.write("tree", "program.py", "def work(ask):\n    return len(ask())\n")
    outcome = await bench.shell("python3 evaluate.py")
    assert outcome.metrics == {"score": float(len(ANSWER))}, outcome


@pytest.mark.usefixtures("desk")
async def test_gates_have_no_model(bench: Any) -> None:
    bench.gates = (Gate("look", 'test -z "$OPENAI_API_KEY$LOOPTY_MODEL" && ! test -e /t/model'),)
    outcome = await bench.run(SCORES)
    assert outcome.is_finished, outcome


@pytest.mark.usefixtures("desk")
async def test_the_limits_of_a_trial_hold_with_the_port(bench: Any) -> None:
    bench.seconds = 1.0
    outcome = await bench.run(CALLS_MODEL + "ask()\nimport time\ntime.sleep(60)\n")
    assert (outcome.ending, outcome.reason) == (Ending.TIMED_OUT, "still running after 1 s")


BY_SOCKET = """
import http.client, json, os, socket
from loopty_sdk import Run
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["LOOPTY_MODEL_SOCKET"])
model = Connection("model")
body = json.dumps({"messages": [{"role": "user", "content": "hello"}]})
model.request("POST", "/v1/chat/completions", body, {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
text = json.load(model.getresponse())["choices"][0]["message"]["content"]
print(json.dumps([os.environ.get("OPENAI_BASE_URL"), os.environ["LOOPTY_MODEL"]]))
Run().finish(len(text))
"""


@pytest.mark.usefixtures("desk")
async def test_the_socket_works_without_the_port(bench: Any) -> None:
    assert (await bench.run(BY_SOCKET)).metrics == {"score": float(len(ANSWER))}


@pytest.mark.usefixtures("desk")
async def test_the_port_works_without_a_sandbox(bench: Any) -> None:
    bench.sandbox = Unsafe()
    assert (await bench.run(SCORES)).metrics == {"score": float(len(ANSWER))}


@pytest.mark.usefixtures("desk")
async def test_landlock_has_the_socket_instead_of_loopback(bench: Any) -> None:
    try:
        order.version()
    except OSError:
        pytest.skip("this kernel has no Landlock")
    bench.sandbox = Landlock()
    outcome = await bench.run(BY_SOCKET)
    assert outcome.metrics == {"score": float(len(ANSWER))}, outcome
    assert last_output(bench) == [None, MODEL]
    assert "through LOOPTY_MODEL_SOCKET" in (bench.folder / "stderr.log").read_text()


@pytest.mark.usefixtures("desk")
async def test_the_socket_works_without_python(bench: Any) -> None:
    bench.path = "/nowhere"
    outcome = await bench.shell("""test -S $LOOPTY_MODEL_SOCKET && echo '{"score": 1}' > $EVO_RESULT_PATH""")
    assert outcome.is_finished, outcome
    assert "there is no python3 here" in (bench.folder / "stderr.log").read_text()
