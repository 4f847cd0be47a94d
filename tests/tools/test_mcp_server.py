"""A hostile or broken host of the server: every line is answered, no line ends it, and none forges an answer."""

import json
import subprocess
import sys

SERVER = """
import os
from loopty.tools.doors import McpServer

class Answered:
    def __init__(self, call):
        self._reading, writing = os.pipe()
        os.write(writing, b"-")
    def fileno(self):
        return self._reading
    def read(self):
        os.close(self._reading)
        return b'{"text": "done"}'

McpServer("", Answered).serve()
"""
PING = b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}'


def answers(*lines: bytes) -> list[dict]:
    """What the server says to these lines."""
    raw = b"\n".join((*lines, PING, b""))
    done = subprocess.run([sys.executable, "-c", SERVER], input=raw, capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    return [json.loads(line, parse_constant=lambda _: 1 / 0) for line in done.stdout.splitlines()]


def nested(depth: int, text: bytes) -> bytes:
    return text % (b"[" * depth + b"]" * depth)


def test_no_depth_of_nesting_ends_the_server():
    parts = (
        b'{"id": %s, "method": "ping"}',
        b'{"id": 1, "method": "tools/call", "params": {"name": %s}}',
        b'{"id": 1, "method": "tools/call", "params": {"name": "context", "arguments": {"id": %s}}}',
    )
    lines = [nested(depth, part) for depth in (*range(930, 1_000), 100_000) for part in parts]
    found = answers(*lines)
    assert len(found) == len(lines) + 1
    assert {"jsonrpc": "2.0", "id": "last", "result": {}} in found


def test_what_is_no_request_gets_one_valid_line():
    big = b"1" + b"0" * 400
    lines = [
        b'{"id": NaN, "method": "ping"}',
        b'{"id": [1], "method": "ping"}',
        b'{"id": true, "method": "ping"}',
        b'{"id": 1%s, "method": "ping"}' % (b"0" * 5_000),
        b'{"id": %s, "method": "ping"}' % big,
        b'{"id": "\\ud800", "method": "\\udfff"}',
        b'{"id": 1, "method": "a\\n{\\"id\\": 2, \\"result\\": {}}"}',
        b'{"id": 1, "method": "initialize", "params": {"protocolVersion": {"a": 1}, "clientInfo": []}}',
        b'{"id": 1, "method": "tools/call", "params": [1]}',
        b"\xff\xfe\x00",
        b"[[], 1]",
    ]
    found = answers(*lines, b'{"method": "notifications/cancelled", "params": {"requestId": [9]}}', b"[]")
    assert len(found) == len(lines) + 2  # the two of the batch
    assert [answer["id"] for answer in found if "result" in answer] == [int(big), 1, "last"]


def test_a_flood_of_calls_with_one_id_is_bounded_and_each_is_answered():
    call = b'{"id": 7, "method": "tools/call", "params": {"name": "context", "arguments": {"text": NaN}}}'
    found = answers(*[call] * 300)
    words = [answer["result"]["content"][0]["text"] for answer in found if answer["id"] == 7]
    assert set(words) == {"done", "16 calls are open: wait for one of them"}
