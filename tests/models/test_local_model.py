"""A GGUF file served on this machine."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelFault, ModelSpec, Prompt, Speaker
from loopty.models.local_model import LocalModel, context_of, make_local_model
from loopty.models.local_server import LocalAddress, LocalServer, LocalServerSpec, server_for

from . import tiny_gguf

pytest.importorskip("xllamacpp")

PROMPT = Prompt("You choose.", (Message(Speaker.ASKER, "Red or blue?"),), max_output_tokens=100)
COLOR = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "blue"]}},
    "required": ["color"],
    "additionalProperties": False,
}
END_SECONDS = 60


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return tiny_gguf.write_model(tmp_path_factory.mktemp("weights") / "tiny.gguf")


def local_spec(file: Path, **more) -> ModelSpec:
    more = {"temperature": 0.8, "settings": {"seed": 3, "threads": 1}, **more}
    return ModelSpec("local", file=str(file), **more)


def server_spec(file: Path) -> LocalServerSpec:
    return LocalServerSpec(file, tiny_gguf.CONTEXT, 1, 1)


def ends(pid: int) -> bool:
    """Whether the process ends within the time."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], END_SECONDS)[0])
    finally:
        os.close(process)


def wait_for_a_connection(port: int) -> None:
    entry, end = f":{port:04X} 01 ", time.monotonic() + END_SECONDS
    while entry not in Path("/proc/net/tcp").read_text():
        assert time.monotonic() < end, f"nobody has connected to port {port}"
        time.sleep(0.01)


async def test_a_local_model_answers_and_reports_its_usage(file):
    model = make_local_model("tiny", local_spec(file))
    reply = await model.reply(PROMPT)
    assert model.name == "local:tiny"
    assert reply.text
    assert reply.usage.input_tokens > len("You choose.")
    assert 0 < reply.usage.output_tokens <= 100
    assert (await model.reply(PROMPT)).usage.cached_tokens > 0


async def test_a_reply_follows_the_schema(file):
    reply = await make_local_model("tiny", local_spec(file)).reply(Prompt("", PROMPT.messages, COLOR))
    assert json.loads(reply.text)["color"] in ("red", "blue")
    assert reply.whole


async def test_a_reply_that_was_cut_off_is_not_whole(file):
    reply = await make_local_model("tiny", local_spec(file, max_output_tokens=2)).reply(PROMPT)
    assert reply.usage.output_tokens == 2
    assert not reply.whole


async def test_the_same_seed_gives_the_same_reply(file):
    model = make_local_model("tiny", local_spec(file))
    await model.reply(PROMPT)
    first, second = await model.reply(PROMPT), await model.reply(PROMPT)
    other = await make_local_model("tiny", local_spec(file, settings={"seed": 4, "threads": 1})).reply(PROMPT)
    assert first.text == second.text != other.text


async def test_models_of_the_same_file_share_a_server(file):
    evolver = make_local_model("a", local_spec(file))
    servers = server_for.cache_info().currsize
    verifier = make_local_model("b", local_spec(file, temperature=0.1))
    assert all(reply.text for reply in await asyncio.gather(evolver.reply(PROMPT), verifier.reply(PROMPT)))
    assert server_for.cache_info().currsize == servers


class Silent:
    """A server that never answers, and logs which requests came and went."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.requests: list[dict[str, object]] = []
        self._port = 0
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def listen(self):
        async with await asyncio.start_server(self._accept, "127.0.0.1", 0) as server:
            self._port = server.sockets[0].getsockname()[1]
            yield
            await asyncio.gather(*self._tasks)

    def _accept(self, *streams) -> None:
        self._tasks.append(asyncio.create_task(self._read_request(*streams)))

    def address(self) -> LocalAddress:
        return LocalAddress(self._port, "k")

    async def _read_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        self.requests.append(
            json.loads(await reader.readexactly(int(head.split("content-length:")[1].split()[0])))
        )
        self.log.append("came")
        await reader.read()
        self.log.append("went")
        writer.close()
        await writer.wait_closed()


async def test_the_time_of_a_request_begins_when_the_server_is_free():
    silent = Silent()
    async with silent.listen():
        model = LocalModel("local:x", ModelSpec("local", timeout_seconds=0.3), silent, 1)
        faults = await asyncio.gather(*(model.reply(PROMPT) for _ in range(2)), return_exceptions=True)
    assert all("raise its timeout_seconds" in str(fault) for fault in faults)
    assert silent.log[:3] == ["came", "went", "came"]


async def test_an_endless_reply_is_ended_before_the_timeout():
    silent = Silent()
    schema = {"type": "object", "properties": {"why": {"type": "string"}, "it": {"type": "string", "enum": ["a"]}}}
    async with silent.listen():
        model = LocalModel("local:x", ModelSpec("local", timeout_seconds=0.3), silent, 1)
        with pytest.raises(ModelFault):
            await model.reply(Prompt("", PROMPT.messages, schema))
    (request,) = silent.requests
    assert 0 < request["t_max_predict_ms"] < 300
    properties = request["response_format"]["json_schema"]["schema"]["properties"]
    assert properties == {"why": {"type": "string", "maxLength": 1000}, "it": {"type": "string", "enum": ["a"]}}


def test_the_local_server_gets_no_keys_from_the_environment(file, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-the-child")
    server = LocalServer(server_spec(file))
    try:
        server.address()
        environ = Path(f"/proc/{server.pid}/environ").read_bytes()
    finally:
        server.stop()
    assert b"PATH=" in environ
    assert b"sk-not-for-the-child" not in environ


def test_the_local_server_refuses_requests_without_its_key(file):
    server = LocalServer(server_spec(file))
    url = f"http://127.0.0.1:{server.address().port}/v1/chat/completions"
    for path in (url, url.replace("chat/completions", "completions")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(path, b"{}"), timeout=END_SECONDS)
        refused.value.close()
        assert refused.value.code == 401
    server.stop()


def test_after_a_crash_the_next_call_restarts_the_server(file):
    server = LocalServer(server_spec(file))
    before = server.address()
    pid = server.pid
    assert pid
    os.kill(pid, signal.SIGSEGV)
    assert ends(pid)
    assert server.address().port
    assert server.address().key != before.key
    assert "SIGKILL" in server.stop()


async def test_a_server_that_dies_in_mid_reply_is_a_transient_fault(file):
    model, server = make_local_model("tiny", local_spec(file)), server_for(server_spec(file))
    port = server.address().port
    assert server.pid
    os.kill(server.pid, signal.SIGSTOP)
    task = asyncio.create_task(model.reply(PROMPT))
    await asyncio.to_thread(wait_for_a_connection, port)
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(ModelFault, match="SIGKILL") as fault:
        await task
    assert fault.value.transient
    assert (await model.reply(PROMPT)).text


async def test_a_reply_that_does_not_come_is_a_transient_fault(file):
    model = make_local_model("tiny", local_spec(file, timeout_seconds=0.2))
    server = server_for(server_spec(file))
    server.address()
    assert server.pid
    os.kill(server.pid, signal.SIGSTOP)
    with pytest.raises(ModelFault, match=r"no reply within 0\.2 s") as fault:
        await model.reply(PROMPT)
    assert fault.value.transient
    server.stop()


def test_the_server_ends_with_a_process_that_is_killed(file):
    script = (
        "from pathlib import Path; from loopty.models.local_server import *;"
        f"server = LocalServer(LocalServerSpec(Path({str(file)!r}), 512, 1, 1));"
        "server.address(); print(server.pid, flush=True); input()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        try:
            pid = int(parent.stdout.readline())
        finally:
            parent.kill()
    assert ends(pid)


def test_the_server_ends_with_its_parent_while_it_loads(tmp_path):
    endless = tmp_path / "endless.gguf"
    os.mkfifo(endless)
    command = [sys.executable, "-m", "loopty.models.local_child"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    order = {"file": str(endless), "context": 512, "threads": 1, "parallel": 1, "key": "k"}
    with child:
        try:
            child.stdin.write(json.dumps(order).encode() + b"\n")
            child.stdin.flush()
            # Opens only once the child opens it to read: from then on the child is blocked inside the library.
            with endless.open("wb"):
                child.stdin.close()
                assert ends(child.pid)
        finally:
            child.kill()


async def test_a_file_that_the_library_cannot_load_is_a_permanent_fault_with_its_reason(tmp_path, file):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(ModelFault, match=r"broken\.gguf could not be loaded: .*remaining file size") as fault:
        await make_local_model("broken", local_spec(broken)).reply(PROMPT)
    assert not fault.value.transient


async def test_a_prompt_that_is_too_long_names_the_setting_that_shortens_it(file):
    model = make_local_model("tiny", local_spec(file, context_tokens=1_000_000))
    with pytest.raises(
        ModelFault, match=f"the context of local:tiny is {tiny_gguf.CONTEXT}: lower file_tokens"
    ) as fault:
        await model.reply(Prompt("", (Message(Speaker.ASKER, "far " * 400),)))
    assert not fault.value.transient


@pytest.mark.parametrize(
    ("trained", "options", "context"),
    [(131_072, {}, 8_192), (131_072, {"context_tokens": 40_000}, 40_000), (512, {}, 512)],
)
def test_the_context_is_modest_unless_the_task_asks_for_more(tmp_path, trained, options, context):
    file = tiny_gguf.write_model(tmp_path / "tiny.gguf", trained)
    assert context_of(file, local_spec(file, **options)) == context


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (ModelSpec("local"), 'file = "PATH.gguf" or model = "smollm2"'),
        (ModelSpec("local", file="nowhere.gguf"), "there is no file .*nowhere.gguf"),
        (ModelSpec("local", file="text.gguf"), "not a GGUF file"),
        (ModelSpec("local", model="smollm2"), "loopty models --fetch smollm2"),
        (ModelSpec("local", model="gpt-9"), "loopty cannot fetch weights called 'gpt-9'"),
        (ModelSpec("local", file="tiny.gguf", settings={"threads": 0}), "settings.threads must be a whole number"),
    ],
)
def test_a_wrong_spec_is_reported_before_anything_starts(wrong, remedy, tmp_path, monkeypatch, file):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.gguf").write_text("hello")
    (tmp_path / "tiny.gguf").write_bytes(file.read_bytes())
    with pytest.raises(Misuse, match=remedy):
        make_local_model("mine", wrong)
