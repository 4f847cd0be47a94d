"""Starts the dashboard: binds its address, says where it is, and serves until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.records import Record
from loopty.web.server import Address, DashboardServer, PageAccess

LOOPBACK = "127.0.0.1"
_START_SECONDS = 60.0


class DashboardOptions(Record):
    """Where the dashboard listens, and how."""

    host: str = LOOPBACK
    port: int = 0
    names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    """Whether a proxy in front of it speaks TLS."""

    @property
    def is_loopback(self) -> bool:
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        return self.host == "localhost"

    def check(self) -> None:
        """Refuse an address that others can reach without encryption. Raises Misuse."""
        if (self.certificate is None) != (self.key is None):
            raise Misuse("TLS needs both: --tls-certificate FILE and --tls-key FILE")
        if not self.is_loopback and self.certificate is None and not self.behind_proxy:
            raise Misuse(
                f"others can reach {self.host}, and the token would cross the network in the clear: add "
                "--tls-certificate FILE and --tls-key FILE, or --behind-proxy with a proxy that speaks TLS; or "
                "keep 127.0.0.1 and use `ssh -L PORT:127.0.0.1:PORT HOST`"
            )


def serve_dashboard(
    top: Path, options: DashboardOptions, on_start: Callable[[str], None], ends_with_input: bool = False
) -> None:
    """Serve until SIGINT or SIGTERM, or with `ends_with_input` until standard input ends."""
    options.check()
    listener = _listen(options)
    port = listener.getsockname()[1]
    is_secure = options.certificate is not None or options.behind_proxy
    access = PageAccess(Address(options.host.strip("[]"), port, options.names, is_secure))
    server, tls = DashboardServer(top, access), _tls(options)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            _serve(server, listener, tls, lambda: on_start(access.address.url(access.token)), ends_with_input)
        )


async def _serve(
    server: DashboardServer,
    listener: socket.socket,
    tls: ssl.SSLContext | None,
    on_start: Callable[[], None],
    ends_with_input: bool,
) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, ended.set)
    if ends_with_input:
        try:
            loop.add_reader(sys.stdin.fileno(), _end_with_input, ended)
        except PermissionError:  # a file or /dev/null, which epoll refuses: there is nobody to wait for
            ended.set()
    serving = asyncio.create_task(server.serve([listener], tls))
    on_start()
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _end_with_input(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 64):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ended.set()


def _listen(options: DashboardOptions) -> socket.socket:
    host = options.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, options.port))
    except OSError as error:
        listener.close()
        raise Misuse(
            f"cannot listen at {options.host} port {options.port} ({error.strerror}): choose another --port"
        ) from None
    listener.listen(128)
    listener.setblocking(False)
    return listener


def _tls(options: DashboardOptions) -> ssl.SSLContext | None:
    if options.certificate is None or options.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.certificate, options.key)
    except (OSError, ssl.SSLError) as error:
        raise Misuse(f"cannot read the certificate or its key ({error})") from None
    return context


@contextmanager
def dashboard_beside(top: Path, on_start: Callable[[str], None]) -> Iterator[None]:
    """Run a dashboard in its own process during the block: it costs the loop nothing, and ends with it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "loopty", "dashboard", "--json", "--ends-with-input"],
        cwd=top,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    try:
        line = process.stdout.readline()
        with contextlib.suppress(ValueError, TypeError, KeyError):
            on_start(json.loads(line)["url"])
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
