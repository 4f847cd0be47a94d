"""The doors to the tools: the Model Context Protocol, and files for shells that may open no socket."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from loopty.kit import untrusted_files
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.untrusted_files import Unreadable
from loopty.tools.table import LARGEST_CALL, TOOLS, mcp_listing
from loopty.version import __version__
from loopty_sdk import agent_tool


class Call(Protocol):
    """A call that another process answers."""

    def fileno(self) -> int:
        """Return a descriptor that can be read when there is something to read."""
        ...

    def read(self) -> bytes | None:
        """Read what has come: the reply when it is complete, else None."""
        ...


StartCall = Callable[[bytes], Call]
"""Begins to answer a call, given as JSON."""
MOST_CALLS = 16
"""Of one door, at the same time."""


# Whoever can write there may send a letter, so each is read with care: a plain name, a regular file, a bounded
# size.


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\.json")
_MOST_REPLIES = 200
"""Replies that nobody took: older ones are removed."""
_POLL_SECONDS = 0.1


class Mailbox:
    """The mailbox of a repository."""

    def __init__(self, folder: SafeFolder) -> None:
        """`folder` is loopty's folder in the working tree."""
        self.top, self._folder = folder.root, folder
        self._inbox, self._replies = self._folder.below("mail", "in"), self._folder.below("mail", "out")

    def open(self) -> None:
        """Make the folders, and put the program beside them that sends letters."""
        self._inbox.make()
        self._replies.make()
        self._folder.file("tool").write(Path(agent_tool.__file__).read_bytes())

    def serve(self, start_call: StartCall) -> None:
        """Answer letters until this process is interrupted."""
        calls: dict[Call, str] = {}
        while True:
            for name in self._letters()[: MOST_CALLS - len(calls)]:
                if (letter := self._take(name)) is not None:
                    calls[start_call(letter)] = name
            if not calls:
                time.sleep(_POLL_SECONDS)
                continue
            for call in select.select(list(calls), [], [], _POLL_SECONDS)[0]:
                if (reply := call.read()) is not None:
                    self._reply(calls.pop(call), reply)

    def _letters(self) -> list[str]:
        """List the names of letters that wait."""
        try:
            return [name for name in self._inbox.names() if _NAME.fullmatch(name)]
        except OSError:
            return []  # something put a link in its place: then no letter is answered

    def _take(self, name: str) -> bytes | None:
        """Read and remove a letter; None if another process has just taken it. One that is unreadable is empty."""
        taken = f".{os.getpid()}-{name}"
        try:
            with self._inbox.handle() as folder:
                os.rename(name, taken, src_dir_fd=folder, dst_dir_fd=folder)  # one of several processes succeeds
                return untrusted_files.content(Path(taken), LARGEST_CALL, folder) or b""
        except FileNotFoundError:
            return None
        except (Unreadable, OSError):
            return b""
        finally:
            with contextlib.suppress(OSError):
                self._inbox.remove(taken)

    def _reply(self, name: str, reply: bytes) -> None:
        """Put the reply where its sender looks for it."""
        with contextlib.suppress(OSError):
            self._replies.file(name).write(reply)
            self._remove_old_replies()

    def _remove_old_replies(self) -> None:
        names = self._replies.names()
        if len(names) <= _MOST_REPLIES:
            return
        with self._replies.handle() as folder:
            ages = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime for name in names}
        for name in sorted(names, key=ages.__getitem__)[:-_MOST_REPLIES]:
            self._replies.remove(name)


# By hand, because the usual library takes 1.25 s of CPU to import, and some hosts start one of these per subagent.
# It holds no state, and other processes answer the calls: when it is killed, or its host cancels a call, nothing
# is lost, and tickets go on.


_REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, newest first. What is used here is the same in all of them."""
_INSTRUCTIONS = (
    "loopty runs experiments on this repository: a benchmark scores each change in a sandbox, and a judge keeps "
    "or discards it. Call context first, open a draft for one hypothesis, edit the files in its folder, submit "
    "it, and wait for the verdict. Leave a note about what you learned."
)
_PATIENCE = {"claude": 300, "gemini": 300, "qwen": 300, "codex": 25}
"""For how many seconds a call may wait, by the beginning of the host's name; some hosts measure 320 s and more."""
_LEAST_PATIENCE = 50
"""Of other hosts: many end a call after 60 s."""
_PROGRESS_SECONDS = 15.0
_CHUNK = 1 << 16
_LONGEST_LINE = LARGEST_CALL + (1 << 16)
_PARSE, _INVALID, _NO_METHOD, _PARAMS = -32700, -32600, -32601, -32602


class McpServer:
    """One session with a host."""

    def __init__(self, client: str, start_call: StartCall) -> None:
        """`client` is the name of this client, if the user chose one."""
        self._client, self._chosen, self._start_call = "agent", client, start_call
        self._calls: dict[Call, object] = {}
        """The calls that are not answered yet, with the ids of their requests."""
        self._tokens: dict[Call, object] = {}
        """The tokens by which the host wants to hear that a call goes on: then it waits longer."""
        self._patience = _LEAST_PATIENCE

    def serve(self) -> None:
        """Answer until the host closes standard input."""
        try:
            self._serve()
        except (BrokenPipeError, KeyboardInterrupt):
            return

    def _serve(self) -> None:
        rest = b""
        while True:
            waiting: list[int | Call] = [0, *self._calls]
            ready, _, _ = select.select(waiting, [], [], _PROGRESS_SECONDS if self._tokens else None)
            if not ready:
                self._report_progress()
            for call in ready:
                if not isinstance(call, int):
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
            try:
                self._handle(each)
            except RecursionError:  # what could just be read may be too deep to be written
                self._refuse(None, _INVALID, "the message is nested too deep")

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
        if number is not None and type(number) not in (int, str):
            self._refuse(None, _INVALID, "an id is a number or a text")
            return
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "initialize":
            self._send(number, self._initialize(params))
        elif method == "ping":
            self._send(number, {})
        elif method == "tools/list":
            self._send(number, {"tools": mcp_listing()})
        elif method == "tools/call":
            self._call(number, params)
        else:
            self._refuse(number, _NO_METHOD, f"there is no method {method[:80]}")

    def _initialize(self, params: dict[str, object]) -> dict[str, object]:
        wanted, host = params.get("protocolVersion"), params.get("clientInfo")
        name = host.get("name") if isinstance(host, dict) else ""
        self._client = self._chosen or _client_name(name)
        host_name = str(name).lower()
        self._patience = next(
            (most for begin, most in _PATIENCE.items() if host_name.startswith(begin)), _LEAST_PATIENCE
        )
        return {
            "protocolVersion": wanted if wanted in _REVISIONS else _REVISIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "loopty", "version": __version__},
            "instructions": _INSTRUCTIONS,
        }

    def _call(self, number: object, params: dict[str, object]) -> None:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or name not in TOOLS:
            self._refuse(number, _PARAMS, f"there is no tool {str(name)[:40]}: the tools are {', '.join(TOOLS)}")
            return
        if len(self._calls) >= MOST_CALLS:
            self._answer(number, {"error": f"{MOST_CALLS} calls are open: wait for one of them"})
            return
        if "wait" in TOOLS[name].arguments and (arguments is None or isinstance(arguments, dict)):
            arguments = {"wait": self._patience, **(arguments or {})}
        call = {"tool": name, "arguments": arguments or {}, "client": self._client_of(params)}
        raw = json.dumps(call).encode()
        if len(raw) > LARGEST_CALL:
            self._answer(number, {"error": f"the call has {len(raw):,} bytes, more than {LARGEST_CALL:,}"})
            return
        started = self._start_call(raw)
        self._calls[started] = number
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if type(token) in (int, str):
            self._tokens[started] = token

    def _report_progress(self) -> None:
        """Tell the host that its calls go on."""
        seconds = int(time.monotonic())
        for token in self._tokens.values():
            params = {"progressToken": token, "progress": seconds, "message": "still running"}
            _write({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def _client_of(self, params: dict[str, object]) -> str:
        """Name the client: a host may serve several of its threads by one of these processes."""
        meta = params.get("_meta")
        found = meta if isinstance(meta, dict) else {}
        thread = next((value for key, value in found.items() if "thread" in str(key).lower()), "")
        if self._chosen or not isinstance(thread, str) or not thread:
            return self._client
        return _plain(f"{self._client.rpartition('-')[0]}-{thread[-8:]}")

    def _finish(self, call: Call) -> None:
        reply = call.read()
        if reply is not None:
            self._tokens.pop(call, None)
            self._answer(self._calls.pop(call), json.loads(reply))

    def _answer(self, number: object, reply: dict[str, object]) -> None:
        is_error = "error" in reply
        text = str(reply["error"] if is_error else reply.get("text", ""))
        self._send(number, {"content": [{"type": "text", "text": text}], "isError": is_error})

    def _refuse(self, number: object, code: int, message: str) -> None:
        _write({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    def _send(self, number: object, result: object) -> None:
        _write({"jsonrpc": "2.0", "id": number, "result": result})


def _client_name(host: object) -> str:
    """Make a name for this session: the host's, and a few letters of its own."""
    return _plain(f"{host if isinstance(host, str) and host else 'agent'}-{os.urandom(2).hex()}")


def _plain(name: str) -> str:
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return letters[-40:].strip("-") or "agent"


def _write(message: object) -> None:
    raw = json.dumps(message).encode() + b"\n"
    while raw:
        raw = raw[os.write(1, raw) :]
