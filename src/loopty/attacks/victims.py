"""Stand-in victims on the host: listening sockets and a process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path

from loopty.kit.trial_user import trial_owner

_ALIVE_SECONDS = "300"


class HostServices:
    """Sockets that never accept: a client that connects waits in the queue, where it is noticed."""

    def __init__(self, path: Path, abstract: str) -> None:
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._path, self._abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self._path.bind(str(path))
        path.chmod(0o777)
        self._abstract.bind(f"\0{abstract}")
        for server in (self._path, self._abstract):
            server.listen()
        for server in self._sockets:
            server.setblocking(False)

    @property
    def tcp_port(self) -> int:
        port: int = self._tcp.getsockname()[1]
        return port

    @property
    def udp_port(self) -> int:
        port: int = self._udp.getsockname()[1]
        return port

    def service_reached(self) -> str:
        """The first service that was reached, or an empty text."""
        servers = {"a TCP service": self._tcp, "a socket": self._path, "an abstract socket": self._abstract}
        for name, server in servers.items():
            with contextlib.suppress(BlockingIOError):
                server.accept()[0].close()
                return name
        with contextlib.suppress(BlockingIOError):
            self._udp.recv(100)
            return "a UDP service"
        return ""

    def close(self) -> None:
        for server in self._sockets:
            server.close()

    @property
    def _sockets(self) -> tuple[socket.socket, ...]:
        return (self._tcp, self._udp, self._path, self._abstract)


class Victim:
    """A process of the user that trials run as, with a secret in its environment."""

    def __init__(self, secret: str) -> None:
        uid, gid = trial_owner() or (None, None)
        self._process = subprocess.Popen(
            ["sleep", _ALIVE_SECONDS],
            env={"PATH": os.defpath, "TOKEN": secret},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=uid,
            group=gid,
            extra_groups=None if uid is None else (),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def harm(self) -> str:
        """What was done to the process, or an empty text."""
        return "" if self._process.poll() is None else "a process of the host is dead"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
