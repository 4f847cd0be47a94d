"""The connections of processes, as the kernel counts their bytes."""

import contextlib
import os
import socket
import subprocess
import sys

import pytest

from loopty.features.agents.socket_traffic import connections_of

CLIENT = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"x" * 3000)
print("sent", flush=True)
sys.stdin.readline()
s.recv(10)
print("received", flush=True)
sys.stdin.readline()
"""


def test_bytes_of_a_connection_are_counted_for_its_process_alone():
    if connections_of([]) is None:
        pytest.skip("no socket diagnostics here")
    with contextlib.ExitStack() as ends:
        server = ends.enter_context(socket.create_server(("127.0.0.1", 0)))
        command = [sys.executable, "-c", CLIENT, str(server.getsockname()[1])]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ends.enter_context(client)
        ends.callback(client.kill)
        accepted = ends.enter_context(server.accept()[0])
        assert client.stdout.readline() == "sent\n"
        received = 0
        while received < 3000:
            received += len(accepted.recv(10_000))
        (asked,) = connections_of([client.pid]).values()
        assert (asked.sent > 0, asked.received, asked.is_connecting) == (True, 0, False)
        accepted.sendall(b"answer")
        client.stdin.write("\n")
        client.stdin.flush()
        assert client.stdout.readline() == "received\n"
        (answered,) = connections_of([client.pid]).values()
        assert (answered.sent >= 3000, answered.received) == (True, 6)
        assert connections_of([client.pid, os.getpid()]) == {}, "what it says to itself"
