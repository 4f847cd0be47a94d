"""Let an agent that speaks the Agent Client Protocol do one piece of work, without a person.

    python3 -I -S -B acp_client.py COMMAND ARGUMENT...

It starts the command, sends it the prompt in the file named by LOOPTY_PROMPT_FILE, allows what it asks for,
because the sandbox bounds it, and prints every line that the agent sends. LOOPTY_AGENT_SESSION names a
session to go on with. A line of its own, `{"loopty_session": "…"}`, names the session, if the agent can load
it again. Exits with 0 when the agent says that the work has ended, for any reason, and with 1 when it fails
or leaves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_VERSION = 1
_NO_METHOD = -32601
_FILES = {"readTextFile": False, "writeTextFile": False}


class AgentError(Exception):
    """The agent answered with an error, or left."""


class Connection:
    """Requests to an agent over its standard input and output, one message per line."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._requests = 0

    def request(self, method: str, params: dict[str, Any], is_quiet: bool = False) -> dict[str, Any]:
        """Send a request, and serve the agent until it answers. Raises AgentError.

        `is_quiet`: what it sends meanwhile is not printed, because it was before.
        """
        self._requests += 1
        self._send({"id": self._requests, "method": method, "params": params})
        for line in self._process.stdout or ():
            message = _message(line)
            if not is_quiet:
                os.write(1, line)
            if "method" in message:
                self._answer(message)
            elif message.get("id") == self._requests:
                if "result" in message:
                    result = message["result"]
                    return result if isinstance(result, dict) else {}
                raise AgentError(f"{method}: {_fault_words(message.get('error'))}")
        raise AgentError(f"{method}: the agent left without an answer (exit code {self._process.wait()})")

    def close(self) -> None:
        self._process.terminate()

    def _answer(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            return
        if message["method"] == "session/request_permission" and (option := _allowing_option(message)):
            outcome = {"outcome": "selected", "optionId": option}
            self._send({"id": message["id"], "result": {"outcome": outcome}})
        else:
            error = {"code": _NO_METHOD, "message": "this client has no such method"}
            self._send({"id": message["id"], "error": error})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has left; what it said before is read, and then its exit code


def work(connection: Connection, prompt: str, session: str) -> None:
    """One session, from the greeting to the agent's last word."""
    greeting = connection.request(
        "initialize", {"protocolVersion": _VERSION, "clientCapabilities": {"fs": _FILES, "terminal": False}}
    )
    abilities = greeting.get("agentCapabilities")
    can_load = isinstance(abilities, dict) and abilities.get("loadSession") is True
    place: dict[str, Any] = {"cwd": str(Path.cwd()), "mcpServers": []}
    if session and can_load:
        connection.request("session/load", {**place, "sessionId": session}, is_quiet=True)
    else:
        session = str(connection.request("session/new", place).get("sessionId", ""))
    if can_load:
        os.write(1, json.dumps({"loopty_session": session}).encode() + b"\n")
    connection.request("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": prompt}]})


def _message(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _allowing_option(message: dict[str, Any]) -> str | None:
    """The option that allows the most; None where there is none that allows."""
    params = message.get("params")
    options = params.get("options") if isinstance(params, dict) else None
    named = {
        str(option.get("kind")): option.get("optionId")
        for option in (options if isinstance(options, list) else [])
        if isinstance(option, dict)
    }
    found = named.get("allow_always") or named.get("allow_once")
    return found if isinstance(found, str) else None


def _fault_words(error: Any) -> str:
    words = error.get("message") if isinstance(error, dict) else None
    return str(words or "an error without a message")


def main(command: list[str]) -> int:
    prompt = Path(os.environ["LOOPTY_PROMPT_FILE"]).read_text(encoding="utf-8")
    try:
        connection = Connection(command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        work(connection, prompt, os.environ.get("LOOPTY_AGENT_SESSION", ""))
    except AgentError as fault:
        print(fault, file=sys.stderr)
        return 1
    finally:
        connection.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
