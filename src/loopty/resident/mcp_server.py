"""`loopty mcp`: the Model Context Protocol on standard input and output, forwarded to the resident process.

By hand, because the usual library takes 1.25 s of CPU to import, and some hosts start one of these per subagent.
It holds no state: when it is killed, or its host cancels a call, nothing is lost, and tickets go on.
"""

import json
import os
import select
import sys
import time

from loopty.resident.client import start_resident
from loopty.resident.meeting_place import MeetingPlace, find_git_dir
from loopty.resident.tool_client import ToolCall, send_call, start_own_process
from loopty.resident.tool_table import LARGEST_CALL, TOOLS
from loopty.version import __version__

_REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, newest first. What is used here is the same in all of them."""
_INSTRUCTIONS = (
    "loopty runs experiments on this repository: a benchmark scores each change in a sandbox, and a judge keeps "
    "or discards it. Call context first, open a draft for one hypothesis, edit the files in its folder, submit "
    "it, and wait for the verdict. Leave a note about what you learned."
)
_CHUNK = 1 << 16
_LONGEST_LINE = LARGEST_CALL + (1 << 16)
_MOST_CALLS = 16
_START_SECONDS, _START_PERIOD_SECONDS, _PAUSE_SECONDS = 20.0, 60.0, 0.05
"""How long a resident process may take to listen; how often one is started; the pause between two looks."""
_PARSE, _INVALID, _NO_METHOD, _PARAMS = -32700, -32600, -32601, -32602
_KILLED = "the process that ran this was killed; what was recorded is safe: call again"


class _OwnProcess:
    """A call that a process of its own answers, because there is no resident one that may."""

    def __init__(self, folder: str, call: bytes) -> None:
        self._process, writing, self._reading = start_own_process(folder)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(call)
        self._parts: list[bytes] = []

    def fileno(self) -> int:
        return self._reading

    def read(self) -> bytes | None:
        part = os.read(self._reading, _CHUNK)
        if part:
            self._parts.append(part)
            return None
        os.close(self._reading)
        os.waitpid(self._process, 0)
        return b"".join(self._parts)


class McpServer:
    """One session with a host."""

    def __init__(self, folder: str, client: str) -> None:
        """`client` is the name of this client where the user chose one."""
        self._folder, self._client, self._chosen = folder, "agent", client
        self._calls: dict[ToolCall | _OwnProcess, object] = {}
        """The calls that are not answered yet, with the ids of their requests."""
        self._started_at: float | None = None
        self._starter: int | None = None
        """The process that starts the resident one, until it has ended."""

    def serve(self) -> None:
        """Answer until the host closes standard input."""
        rest = b""
        while True:
            ready, _, _ = select.select([0, *self._calls], [], [])
            for call in ready:
                if isinstance(call, (ToolCall, _OwnProcess)):
                    self._finish(call)
            if 0 not in ready:
                continue
            part = os.read(0, _CHUNK)
            if not part:
                return
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if line.strip():
                    self._receive(line)
            if len(rest) > _LONGEST_LINE:
                self._refuse(None, _PARSE, "the message is too long")
                return

    def _receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, _PARSE, "no JSON")
            return
        for each in message if isinstance(message, list) else [message]:  # one revision allows batches
            self._handle(each)

    def _handle(self, message: object) -> None:
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if isinstance(message, dict) and ("result" in message or "error" in message):
                return  # an answer, although nothing was asked
            self._refuse(None, _INVALID, "no request")
            return
        if "id" not in message:
            # A notification. Some hosts cancel every call that was answered, others those that took long: a ticket
            # goes on in any case, and its result is there for the next `wait`.
            return
        number, method = message["id"], message["method"]
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "initialize":
            self._send(number, self._initialize(params))
        elif method == "ping":
            self._send(number, {})
        elif method == "tools/list":
            self._send(number, {"tools": _tool_list()})
        elif method == "tools/call":
            self._call(number, params)
        else:
            self._refuse(number, _NO_METHOD, f"there is no method {method[:80]}")

    def _initialize(self, params: "dict[str, object]") -> "dict[str, object]":
        wanted, host = params.get("protocolVersion"), params.get("clientInfo")
        name = host.get("name") if isinstance(host, dict) else ""
        self._client = self._chosen or _client_name(name)
        git_dir = find_git_dir(self._folder)
        if git_dir and not os.path.exists(MeetingPlace(git_dir).socket):
            self._is_starting()  # already, because the first call will need it
        return {
            "protocolVersion": wanted if wanted in _REVISIONS else _REVISIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "loopty", "version": __version__},
            "instructions": _INSTRUCTIONS,
        }

    def _is_starting(self) -> bool:
        """Whether the resident process is about to listen; starts it, at most once a minute: it may fail here."""
        now = time.monotonic()
        is_old = self._started_at is None or now > self._started_at + _START_PERIOD_SECONDS
        if is_old and os.environ.get("LOOPTY_RESIDENT") != "0":
            self._started_at, self._starter = now, start_resident(self._folder)
        if self._starter is not None and os.waitpid(self._starter, os.WNOHANG)[0]:
            self._starter = None  # it listens now, or never will
        return self._starter is not None and now < (self._started_at or 0.0) + _START_SECONDS

    def _call(self, number: object, params: "dict[str, object]") -> None:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or name not in TOOLS:
            self._refuse(number, _PARAMS, f"there is no tool {str(name)[:40]}: the tools are {', '.join(TOOLS)}")
            return
        if len(self._calls) >= _MOST_CALLS:
            self._answer(number, {"error": f"{_MOST_CALLS} calls are open: wait for one of them"})
            return
        call = {"tool": name, "arguments": arguments or {}, "client": self._client_of(params)}
        raw = json.dumps(call).encode()
        if len(raw) > LARGEST_CALL:
            self._answer(number, {"error": f"the call has {len(raw):,} bytes, more than {LARGEST_CALL:,}"})
            return
        self._calls[self._sent(raw)] = number

    def _client_of(self, params: "dict[str, object]") -> str:
        """The name of the client: a host may serve several of its threads by one of these processes."""
        meta = params.get("_meta")
        found = meta if isinstance(meta, dict) else {}
        thread = next((value for key, value in found.items() if "thread" in str(key).lower()), "")
        if self._chosen or not isinstance(thread, str) or not thread:
            return self._client
        return _plain(f"{self._client.rpartition('-')[0]}-{thread[-8:]}")

    def _sent(self, raw: bytes) -> "ToolCall | _OwnProcess":
        """The call on its way: to the resident process, which may still be starting, else to one of its own."""
        call = send_call(self._folder, raw)
        while call is None:
            is_starting = self._is_starting()
            if not is_starting:
                return send_call(self._folder, raw) or _OwnProcess(self._folder, raw)
            time.sleep(_PAUSE_SECONDS)
            call = send_call(self._folder, raw)
        return call

    def _finish(self, call: "ToolCall | _OwnProcess") -> None:
        reply = call.read()
        if reply is None:
            return
        number = self._calls.pop(call)
        try:
            found = json.loads(reply)
        except ValueError:
            found = {"error": _KILLED}
        self._answer(number, found)

    def _answer(self, number: object, reply: "dict[str, object]") -> None:
        is_error = "error" in reply
        text = str(reply["error"] if is_error else reply.get("text", ""))
        self._send(number, {"content": [{"type": "text", "text": text}], "isError": is_error})

    def _refuse(self, number: object, code: int, message: str) -> None:
        _write({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    def _send(self, number: object, result: object) -> None:
        _write({"jsonrpc": "2.0", "id": number, "result": result})


def _tool_list() -> "list[dict[str, object]]":
    return [
        {
            "name": name,
            "description": tool["description"],
            "inputSchema": tool["inputSchema"],
            "annotations": {
                "readOnlyHint": bool(tool.get("reads")),
                "destructiveHint": name == "manage",
                "openWorldHint": False,
            },
        }
        for name, tool in TOOLS.items()
    ]


def _client_name(host: object) -> str:
    """A name for this session: that of the host, and a few letters of its own."""
    return _plain(f"{host if isinstance(host, str) and host else 'agent'}-{os.urandom(2).hex()}")


def _plain(name: str) -> str:
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return letters[-40:].strip("-") or "agent"


def _write(message: object) -> None:
    raw = json.dumps(message).encode() + b"\n"
    while raw:
        raw = raw[os.write(1, raw) :]


def main(args: "list[str]") -> int:
    """Serve the repository around the given folder, or around the current one."""
    if len(args) > 1 or (args and args[0].startswith("-")):
        sys.stderr.write("usage: loopty mcp [FOLDER]\n\nSpeaks the Model Context Protocol on standard input.\n")
        return 0 if args[0] in ("-h", "--help") else 2
    folder = os.path.abspath(args[0] if args else os.getcwd())
    try:
        McpServer(folder, os.environ.get("LOOPTY_CLIENT", "")).serve()
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
    return 0
